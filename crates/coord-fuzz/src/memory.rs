//! An allocator that counts what each thread holds, so that an input that takes memory without
//! bound is found, and is stopped before it takes the machine along.
#![expect(unsafe_code, reason = "an allocator hands out raw memory; this one only counts")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;
use std::alloc::System;

/// What one execution may hold besides [`PER_BYTE`].
const BASE: usize = 64 * 1024 * 1024;
/// And for each byte of its input.
const PER_BYTE: usize = 64;
/// Beyond this many times the bound an allocation fails, and the program with it.
const GIVE_UP: usize = 8;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The counting allocator, to be made the global one.
#[derive(Debug, Clone, Copy)]
pub struct Counting;

fn grow(bytes: usize) -> bool {
    // Blocks that another thread gave back here make the count smaller than what is held.
    HELD.try_with(|held| {
        let now = held.get().saturating_add(bytes);
        if LIMIT.with(Cell::get) < now {
            return false;
        }
        held.set(now);
        PEAK.with(|peak| peak.set(peak.get().max(now)));
        true
    })
    .unwrap_or(true)
}

fn shrink(bytes: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(bytes)));
}

// SAFETY: every block comes from and goes back to the system's allocator with its own layout.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !grow(size) {
            return null_mut();
        }
        shrink(layout.size());
        // SAFETY: the caller's promises are the same.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `work` on an input of `n` bytes. None, beside its result, if it held no more than it may;
/// else how much that was.
pub(crate) fn measured<T>(n: usize, work: impl FnOnce() -> T) -> (T, Option<usize>) {
    let may = BASE.saturating_add(n.saturating_mul(PER_BYTE));
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    LIMIT.with(|limit| limit.set(before.saturating_add(may.saturating_mul(GIVE_UP))));
    let result = work();
    LIMIT.with(|limit| limit.set(usize::MAX));
    let held = PEAK.with(Cell::get).saturating_sub(before);
    (result, (may < held).then_some(held))
}
