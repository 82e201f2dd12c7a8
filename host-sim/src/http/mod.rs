//! The network face of a host: HTTP/1.1 and Server-Sent Events (docs/serve.md).
//!
//! It moves bytes and knows nothing of routes, except `GET /readyz`, which asks for the server itself: every request
//! goes to the component's `respond`, every stream is read from its `follow`. What stands here are the bounds that a
//! network needs: sizes, times, numbers, and who may call at all.
//!
//! ```no_run
//! # async fn serve(host: host_sim::host::Host) -> Result<(), host_sim::http::ServeError> {
//! use host_sim::http::{ServeOptions, Server};
//!
//! let server = Server::bind(host, ServeOptions::default()).await?;
//! println!("listening on http://{}", server.addr());
//! server.run().await;
//! # Ok(())
//! # }
//! ```

mod answer;
mod injecting;
mod leave;
mod local;
mod options;
mod patience;
mod problem;
mod request;
mod server;
mod sse;
mod stream;

pub use injecting::Injecting;
pub use options::ServeOptions;
pub use server::{Drain, ServeError, Server};
