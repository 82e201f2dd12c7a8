//! The JSON-RPC binding: `POST /a2a`.

use super::answer::{Binding, written};
use super::errors::Fault;
use super::operations::Operation;
use crate::error::Refusal;
use crate::faces::answer::Response;
use crate::faces::call::Call;
use crate::faces::rpc::{self, Message};
use serde_json::Value;

pub(super) fn post(call: &Call) -> Result<Response, Refusal> {
    let (id, method, params) = match rpc::parse(&call.request.body) {
        Ok(Message::Request(id, method, params)) => (id, method, params),
        Ok(Message::Notification(..) | Message::Response(..)) => {
            let fault = rpc::Fault::new(rpc::INVALID_REQUEST, "A2A has requests only: `id` and `method` are due.");
            return Ok(Fault::of_message(fault).rpc(&Value::Null));
        }
        Err((id, fault)) => return Ok(Fault::of_message(fault).rpc(&id)),
    };
    let answered = match Operation::of_method(&method) {
        Some(operation) => operation.run(call, &params),
        None => Err(Fault::no_method(&method)),
    };
    Ok(super::rest::marked(call, written(&Binding::Rpc(id), answered)))
}
