//! The allocator of the hook programs: one region, handed out from its start.
//!
//! A hook lives for a millisecond and needs little memory, so only the last block is ever freed,
//! and only pages that are written are touched. The limits of payload, envelope and answer bound
//! what it may need, far below [`BYTES`]. If that were wrong, the allocation would fail cleanly.
#![expect(unsafe_code, reason = "an allocator hands out raw memory; this is the only place")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Size of the region: twice what the largest answer needs while it grows and is copied.
const BYTES: usize = 8 * coord_wire::limits::BODY_BYTES_MAX;

/// The allocator of the hook executables.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

#[repr(C, align(64))]
struct Memory {
    used: AtomicUsize,
    region: UnsafeCell<MaybeUninit<[u8; BYTES]>>,
}

/// Linked after all other data (see build.rs): anything after it would need pages of its own.
#[unsafe(link_section = ".bss.~heap")]
static MEMORY: Memory =
    Memory { used: AtomicUsize::new(0), region: UnsafeCell::new(MaybeUninit::zeroed()) };

// SAFETY: each change of `used` is one atomic step that begins or ends the last block, so no two
// blocks overlap.
unsafe impl Sync for Memory {}

impl Memory {
    fn start(&self) -> *mut u8 {
        self.region.get().cast()
    }
}

// SAFETY: blocks lie inside `region`, are aligned as asked and never overlap.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = MEMORY.start();
        let mut used = MEMORY.used.load(Ordering::Relaxed);
        loop {
            let padding = start.wrapping_add(used).align_offset(layout.align());
            let Some(from) = used.checked_add(padding) else { return core::ptr::null_mut() };
            let Some(end) = from.checked_add(layout.size()).filter(|end| *end <= BYTES) else {
                return core::ptr::null_mut();
            };
            match MEMORY.used.compare_exchange(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return start.wrapping_add(from),
                Err(now) => used = now,
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let from = (block as usize).wrapping_sub(MEMORY.start() as usize);
        let end = from.wrapping_add(layout.size());
        let _kept_unless_last =
            MEMORY.used.compare_exchange(end, from, Ordering::Relaxed, Ordering::Relaxed);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let from = (block as usize).wrapping_sub(MEMORY.start() as usize);
        let end = from.wrapping_add(layout.size());
        let wanted = from.saturating_add(size);
        // The last block grows in place, so that a growing buffer stays one block.
        if wanted <= BYTES
            && MEMORY
                .used
                .compare_exchange(end, wanted, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            return block;
        }
        // SAFETY: the caller vouches for size and alignment; the new block does not overlap.
        unsafe {
            let layout_new = Layout::from_size_align_unchecked(size, layout.align());
            let new = self.alloc(layout_new);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
            }
            new
        }
    }
}
