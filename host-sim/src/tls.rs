//! TLS of outgoing requests.

/// Chooses the cryptography, once a process, before a client is made. One that was chosen already is as good.
pub(crate) fn provide() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
