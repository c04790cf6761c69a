//! Calls that are followed without a `call` in the cache, and made up for by who leaves the way before they have come back: see
//! [`translate::make_up`].

use crate::cache::{Cache, KnownCall, put};
use crate::maps::Maps;
use crate::translate::emit::{Buffer, reaches};
use crate::translate::{self, CALL_LEN};

/// Where a call is made up for.
#[derive(Clone, Copy)]
pub(crate) struct MadeUp {
    /// The call; behind it returns arrive.
    pub at: u64,
    pub landing: u64,
    /// Behind that.
    pub body: u64,
}

impl Cache {
    /// Sees to it that a call can be made up for, if it is known, and says where. Others that make it do not come back there then: whoever
    /// returns finds only one landing.
    pub(crate) fn make_up(&mut self, back: u64, maps: &mut Maps) -> Option<u64> {
        if let Some(call) = self.made_up.get(&back) {
            return Some(call.at);
        }
        let &KnownCall { at, body, .. } = self.calls.get(&back)?;
        let region = self.region(back, maps);
        let mut code = Buffer::new(region.cold);
        if !reaches(code.here(), body) {
            return None;
        }
        let landing = translate::make_up(&mut code, back, body);
        region.cold = put(&code).next_multiple_of(8);
        self.made_up.insert(back, MadeUp { at: code.at, landing, body });
        self.returns.put(back, landing);
        // Threads remember it.
        translate::close_landing(at + CALL_LEN);
        Some(code.at)
    }

    /// A call is not what it was.
    pub(crate) fn forget_made_up(&mut self, back: u64) {
        if let Some(call) = self.made_up.remove(&back) {
            self.returns.remove(back);
            translate::close_landing(call.landing);
        }
    }
}
