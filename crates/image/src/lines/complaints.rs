//! What was found wrong while reading on demand, by any thread.

use crate::error::Complaint;
use std::sync::{Mutex, PoisonError};

/// More than this says nothing new: in a damaged file every unit may be damaged.
const KEPT: usize = 20;

/// Complaints that come one by one.
#[derive(Default)]
pub(super) struct Complaints(Mutex<Vec<Complaint>>);

impl Complaints {
    pub(super) fn add(&self, part: &str, why: impl ToString) {
        let complaint = Complaint::new(part, why);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT && !kept.contains(&complaint) {
            kept.push(complaint);
        }
    }

    pub(super) fn all(&self) -> Vec<Complaint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
