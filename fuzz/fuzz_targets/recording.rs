//! The parser of recorded sessions, on arbitrary bytes. It is taken from the host by its path, so that the target need
//! not be built with a compiler for WebAssembly inside.
#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../host-sim/src/recording.rs"]
mod recording;

mod model {
    //! What the parser needs of `host_sim::model`.

    /// Tokens and money of an answer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        pub input_tokens: Option<u64>,
        pub output_tokens: Option<u64>,
        pub cost_microusd: Option<u64>,
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = recording::Recording::read(data);
});
