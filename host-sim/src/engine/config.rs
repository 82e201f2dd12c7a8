//! The one place that configures wasmtime: a compiled component of other settings would be refused.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::limits::HostLimits;

/// Most stack of the component's own frames, in bytes.
const WASM_STACK_BYTES: usize = 512 << 10;
/// Stack of one call, host functions included, in bytes of virtual memory.
const ASYNC_STACK_BYTES: usize = 2 << 20;
/// Core instances of one component: its own, and those that wit-component puts around it.
const CORE_INSTANCES: u32 = 4;
/// Tables of one component.
const TABLES: u32 = 2;

/// An engine with a pool for `limits.sessions` calls, or without a pool where so much address space is not to be had.
pub(super) fn engine(limits: &HostLimits) -> wasmtime::Result<Engine> {
    let mut pooled = base();
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    Engine::new(&pooled).or_else(|_| Engine::new(&base()))
}

fn base() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // The world has no async functions, streams or futures; calls are a quarter faster without (wasm-notes 3.1).
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(ASYNC_STACK_BYTES)
        // A run must be repeatable bit for bit on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

fn pool(limits: &HostLimits) -> PoolingAllocationConfig {
    let calls = u32::try_from(limits.sessions.max(2)).unwrap_or(u32::MAX / CORE_INSTANCES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(CORE_INSTANCES))
        .total_memories(calls)
        .total_tables(calls.saturating_mul(TABLES))
        .total_stacks(calls)
        .max_memory_size(limits.memory_bytes)
        .pagemap_scan(Enabled::Auto);
    pool
}
