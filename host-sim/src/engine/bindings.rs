//! What `bindgen!` makes of `wit/`: host traits for the imports, typed calls for the exports.
#![allow(missing_docs)]

wasmtime::component::bindgen!({
    world: "writ",
    path: "../wit",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "writ:runtime/kv.store": super::kv::StoreHandle,
        "writ:runtime/model.completion": super::model::CompletionHandle,
        "writ:runtime/tools.job": super::tools::JobHandle,
    },
});
