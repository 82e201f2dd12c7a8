//! Ctrl-C as messages, so that none is lost between two waits.

use tokio::sync::mpsc;

/// From now on Ctrl-C sends a message instead of ending the process.
pub fn listen() -> mpsc::Receiver<()> {
    let (send, receive) = mpsc::channel(8);
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if send.send(()).await.is_err() {
                break;
            }
        }
    });
    receive
}
