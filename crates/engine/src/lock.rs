//! One lock for everything the threads of a process share.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_abi::kernel;

/// Something that one thread at a time may use.
pub struct Lock<T> {
    /// 0 free, 1 taken, 2 taken and somebody waits.
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the guard only, and there is one guard at a time.
unsafe impl<T> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Free.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for it.
    pub fn take(&self) -> Guard<'_, T> {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.state.swap(2, Ordering::Acquire) != 0 {
                kernel::futex_wait(self.state.as_ptr(), 2);
            }
        }
        Guard(self)
    }
}

/// Holds the lock.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard at a time.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.0.state.swap(0, Ordering::Release) == 2 {
            kernel::futex_wake(self.0.state.as_ptr());
        }
    }
}
