//! Requests that plugins set aside before they change them.

use smallvec::SmallVec;
use wire::{Answer, Request};

use crate::exchange::Exchange;

/// A request as it was before a plugin changed it, and what that plugin noted for the way back.
#[derive(Debug, Default)]
pub struct Kept {
    /// The request before the change.
    pub request: Request,
    /// The plugin's own notes; none when the request is kept.
    pub notes: SmallVec<[u16; 8]>,
}

/// The kept requests of one run of the chain, the newest last. The memory of those that were put back stays.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    slots: Vec<Kept>,
    len: usize,
}

impl Shelf {
    /// Forgets all and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a copy of `request`.
    fn push(&mut self, request: &Request) {
        if self.slots.len() == self.len {
            self.slots.push(Kept::default());
        }
        if let Some(slot) = self.slots.get_mut(self.len) {
            slot.request.copy_from(request);
            slot.notes.clear();
            self.len += 1;
        }
    }

    /// The newest.
    fn last(&mut self) -> Option<&mut Kept> {
        self.slots.get_mut(..self.len)?.last_mut()
    }

    /// The newest, which leaves.
    fn pop(&mut self) -> Option<&mut Kept> {
        self.len = self.len.checked_sub(1)?;
        self.slots.get_mut(self.len)
    }
}

impl Exchange {
    /// Sets a copy of the request aside before this plugin changes it. Whoever does so returns [`crate::Step::Wrap`] and puts
    /// the request back in `answer`, so that plugins find their own in reverse order.
    pub fn keep(&mut self) {
        let frame = self.top_mut();
        frame.kept.push(&frame.request);
    }

    /// The request in hand, the answer, and what was kept last in this run of the chain.
    pub fn kept(&mut self) -> Option<(&mut Request, &mut Answer, &mut Kept)> {
        let frame = self.top_mut();
        Some((&mut frame.request, &mut frame.answer, frame.kept.last()?))
    }

    /// Puts the client's request back that was kept first, when there is nobody left to do so.
    pub(crate) fn put_all_back(&mut self) {
        let Some(frame) = self.frames.first_mut() else { return };
        if frame.kept.len > 0
            && let Some(first) = frame.kept.slots.first_mut()
        {
            std::mem::swap(&mut frame.request, &mut first.request);
        }
        frame.kept.clear();
    }

    /// Puts the request back that was kept last.
    pub fn put_back(&mut self) {
        let frame = self.top_mut();
        if let Some(kept) = frame.kept.pop() {
            std::mem::swap(&mut frame.request, &mut kept.request);
        }
    }
}
