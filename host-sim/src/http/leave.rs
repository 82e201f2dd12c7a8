//! Callers that leave before they have their answer: what the component wants to be told then, it is told.

use std::sync::Arc;

use super::server::{Phase, Shared};
use crate::data::Request;

/// Watches over a caller. Dropped, it tells the component that the caller has left; unless the server stops.
pub(super) struct Watch(Option<(Arc<Shared>, Request)>);

impl Watch {
    /// `POST path` is to be sent, with the headers of the caller's request.
    pub(super) fn new(shared: &Arc<Shared>, path: String, headers: Vec<(String, String)>) -> Self {
        let request = Request { headers, ..Request::new("POST", path) };
        Self(Some((shared.clone(), request)))
    }

    /// The caller has its answer.
    pub(super) fn over(mut self) {
        self.0 = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some((shared, request)) = self.0.take() else { return };
        if *shared.phase.borrow() == Phase::Ending {
            return;
        }
        // A drain waits for it. Once that waits for runs alone there is no place left, and then it does not.
        let writing = shared.writes.clone().try_acquire_owned().ok();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let _writing = writing;
            // It takes its turn among the requests, however many there are: nobody would send it again.
            let Ok(_place) = shared.requests.clone().acquire_owned().await else { return };
            let path = request.path.clone();
            match shared.host.respond(request).await {
                Ok(response) if response.status < 500 => {}
                Ok(response) => shared.host.warn(format!("a caller has left; {path} answered {}", response.status)),
                Err(error) => shared.host.warn(format!("a caller has left; {path} failed: {error}")),
            }
        });
    }
}
