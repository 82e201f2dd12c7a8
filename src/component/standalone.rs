//! What a component without std needs, and the default component: its agents are data.
//!
//! Linking `c` brings `memcmp` and friends with the allocator; nothing of it imports WASI (ARCHITECTURE.md, Numbers).

use crate::agent::DataAgents;
use crate::prelude::*;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr;

struct Default;

impl super::Exported for Default {
    type Agents = DataAgents;
    const AGENTS: DataAgents = DataAgents;
}

super::bindings::export_component!(Default with_types_in super::bindings);

#[link(name = "c", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    #[link_name = "realloc"]
    fn c_realloc(old: *mut c_void, size: usize) -> *mut c_void;
    fn free(old: *mut c_void);
}

/// The C library's allocator.
struct Libc;

/// What `malloc` aligns to on wasm32.
const MALLOC_ALIGN: usize = 8;

// SAFETY: each function hands on to the C library, whose contract is that of `GlobalAlloc` for alignments up to
// `MALLOC_ALIGN`; above it `aligned_alloc` is used, and growing copies.
unsafe impl GlobalAlloc for Libc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            unsafe { malloc(layout.size()).cast() }
        } else {
            let size = layout.size().next_multiple_of(layout.align());
            unsafe { aligned_alloc(layout.align(), size).cast() }
        }
    }

    unsafe fn dealloc(&self, old: *mut u8, _: Layout) {
        unsafe { free(old.cast()) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            return unsafe { c_realloc(old.cast(), size).cast() };
        }
        // SAFETY: the caller promises that `size` is not zero and does not overflow with this alignment.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(old, new, layout.size().min(size));
                self.dealloc(old, layout);
            }
            new
        }
    }
}

#[global_allocator]
static ALLOCATOR: Libc = Libc;

/// Where the host puts the arguments of a call and the results of imports.
#[cfg(target_env = "p2")]
#[unsafe(export_name = "cabi_realloc")]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_size: usize, align: usize, size: usize) -> *mut u8 {
    // SAFETY: the canonical ABI gives sizes and alignments of its own earlier calls.
    let new = unsafe {
        if size == 0 {
            return ptr::without_provenance_mut(align);
        } else if old_size == 0 {
            ALLOCATOR.alloc(Layout::from_size_align_unchecked(size, align))
        } else {
            ALLOCATOR.realloc(old, Layout::from_size_align_unchecked(old_size, align), size)
        }
    };
    if new.is_null() {
        core::arch::wasm32::unreachable();
    }
    new
}

/// The panic's text goes to the log before the trap, so that it is not lost with the instance.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    super::bindings::writ::runtime::log::write(super::bindings::writ::runtime::log::Level::Error, &format!("{info}"));
    core::arch::wasm32::unreachable()
}
