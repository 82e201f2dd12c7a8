//! One tool written in three ways, for `writ crash` to tell apart: it looks a customer up, sends an email, and notes it.
//!
//! ```text
//! cargo build -p mailer --release --target wasm32-wasip2
//! writ crash --component target/wasm32-wasip2/release/mailer.wasm --scenario examples/mailer/careless.toml
//! ```

use writ::agent::{Render, Tool, ToolCall, ToolError, json};

const PARAMETERS: &str = r#"{"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}"#;
const ABOUT: &str = "Welcomes a customer by email";

/// Wrong: the email is sent outside of a step. The tool is run again after a crash, and sends it again, however much of
/// the rest was recorded.
fn careless(cx: &mut Render) -> String {
    cx.model("small");
    cx.tool(Tool::stepped("welcome", ABOUT, PARAMETERS, |call| {
        let customer = call.step("look", |step| step.host_tool("crm_look", &json!({"to": step.arguments()["to"]})))?;
        call.host_tool("send_email", &json!({"text": format!("Welcome, {customer}")}))?;
        call.step("note", |step| step.host_tool("crm_note", &json!({"text": "welcomed"})))?;
        Ok("welcomed".into())
    }));
    "You welcome customers.".into()
}

/// Right, for a mail server that keeps keys: three steps, each executed again only if the crash fell between the effect
/// and its record, and then under the same effect key.
fn careful(cx: &mut Render) -> String {
    cx.model("small");
    cx.tool(Tool::stepped("welcome", ABOUT, PARAMETERS, |call| {
        let customer = call.step("look", |step| step.host_tool("crm_look", &json!({"to": step.arguments()["to"]})))?;
        call.step("mail", |step| step.host_tool("send_email", &json!({"text": format!("Welcome, {customer}")})))?;
        call.step("note", |step| step.host_tool("crm_note", &json!({"text": "welcomed"})))?;
        Ok("welcomed".into())
    }));
    "You welcome customers.".into()
}

/// Right, for a mail server that knows no keys: the tool is plain, so it is never run again. After a crash nobody knows
/// whether the email left, and the model is told so.
fn once(cx: &mut Render) -> String {
    cx.model("small");
    cx.tool(Tool::plain("welcome", ABOUT, PARAMETERS, send));
    "You welcome customers.".into()
}

fn send(call: &mut ToolCall) -> Result<String, ToolError> {
    call.host_tool("send_email", &json!({"text": format!("Welcome, {}", call.arguments()["to"])}))?;
    Ok("welcomed".into())
}

writ::export!(careless, careful, once);
