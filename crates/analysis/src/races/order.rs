//! What the threads of a process did, in an order in which it may have happened.
//!
//! A locked instruction happens some time between two moments. What it gives away counts from the first of them on, what it
//! takes is what has been given by the second: so no way is missed by which one thread could learn of another. What is given to a place
//! adds to what was given before. Some ways that were not taken count too, which may hide a race and never makes one up.
//!
//! A plain store to such a place gives at once; a plain load takes as late as it can have happened, before the next moment of its
//! thread that is known. If another thread may have stored by then, and only waits for a load of its own, it goes on first.
//!
//! Each thread goes on as long as it has the earliest moment of all.

use super::Moment;
use super::clock::Clock;
use super::found::Found;
use super::kernel::{Meaning, Through};
use super::part::{Item, LATEST, Words};
use super::runtime::Spot;
use super::shadow::{Access, Now, Shadow};
use super::variables::{Beginning, Segments};
use crate::Segment;
use crate::map::Map;
use std::collections::VecDeque;

/// So many items may wait for what other threads did at the same time. With more, the order may be wrong.
const MOST_WAITING: usize = 16 << 20;

/// A process.
pub(super) struct Order {
    threads: Vec<Thread>,
    by_number: Map<u32, usize>,
    /// The segments of threads that are not there yet.
    coming: Segments,
    /// How many threads of each number are still to begin here. What a call begins and is not among them is another process.
    to_begin: Map<u32, usize>,
    /// What threads know when they begin.
    starts: Map<u32, Clock>,
    /// What threads knew when they ended.
    ends: Map<u32, Clock>,
    /// What those knew that left for another program, or ended as a process: whoever began them by `vfork` waits for that.
    left: Map<u32, Clock>,
    /// What has been given, by word of four bytes.
    words: Map<u64, Clock>,
    files: Clock,
    signals: Clock,
    pub(super) shadow: Shadow,
    /// Which thread each place in a clock stands for.
    pub(super) places: Vec<u32>,
    /// What calls of the kernel mean, each once.
    meanings: Vec<Meaning>,
    by_meaning: Map<Meaning, u32>,
    waiting: usize,
    /// Whether a thread has begun since somebody has last looked.
    has_announced: bool,
    /// Whether the order may be wrong, as there was too much to keep.
    pub(super) is_hurried: bool,
    pub(super) found: Found,
}

struct Thread {
    number: u32,
    place: u32,
    clock: Clock,
    items: VecDeque<Item>,
    /// The segments that are still to come.
    coming: VecDeque<Beginning>,
    /// How many accesses have come, how many have happened, and with which of them segments begin.
    came: u32,
    accesses: u32,
    segments: Vec<(u32, Segment)>,
    /// The last moment that is known.
    time: u64,
    /// A locked instruction has given, and has still to take.
    has_given: bool,
    has_begun: bool,
    has_ended: bool,
    /// A call that is not over.
    call: Option<Meaning>,
    /// The places of plain stores before the next moment that is known, and that moment; if they have been looked for.
    ahead: Option<(VecDeque<Words>, Option<u64>)>,
}

/// When a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At that moment: twice the time, and one more if it takes.
    At(u64),
    /// Nobody knows yet, but not before that.
    NotBefore(u64),
    /// When somebody has begun it.
    Begun,
    /// Never.
    Never,
}

impl Order {
    /// A process of which all segments are still to come, and the number of its first thread.
    pub(super) fn new(first: Option<u32>, coming: Segments) -> Self {
        let begin =
            |segments: &VecDeque<Beginning>| segments.iter().filter(|segment| segment.is_first).count();
        let mut order = Self {
            threads: Vec::new(),
            by_number: Map::default(),
            to_begin: coming.iter().map(|(&number, segments)| (number, begin(segments))).collect(),
            coming,
            starts: Map::default(),
            ends: Map::default(),
            left: Map::default(),
            words: Map::default(),
            files: Clock::default(),
            signals: Clock::default(),
            shadow: Shadow::default(),
            places: Vec::new(),
            meanings: Vec::new(),
            by_meaning: Map::default(),
            waiting: 0,
            has_announced: false,
            is_hurried: false,
            found: Found::default(),
        };
        if let Some(first) = first {
            order.announce(first, Clock::default(), 0);
        }
        order
    }

    /// The thread with a number; if there was none, one that does nothing before that time.
    fn thread(&mut self, number: u32, time: u64) -> usize {
        let (threads, coming) = (&mut self.threads, &mut self.coming);
        *self.by_number.entry(number).or_insert_with(|| {
            let coming = coming.remove(&number).unwrap_or_default();
            threads.push(Thread { time, coming, ..Thread::new(number) });
            threads.len() - 1
        })
    }

    /// A thread did more.
    pub(super) fn push(&mut self, segment: &Segment, mut items: Vec<Item>, meanings: &[Meaning]) {
        let numbers: Vec<u32> = meanings.iter().map(|&meaning| self.meaning(meaning)).collect();
        for item in &mut items {
            if let Item::Call { meaning, .. } = item {
                *meaning = numbers[*meaning as usize];
            }
        }
        let index = self.thread(segment.thread, 0);
        self.waiting += items.len();
        let thread = &mut self.threads[index];
        thread.segments.push((thread.came, *segment));
        let accesses = items.iter().filter(|item| matches!(item, Item::Access { .. })).count();
        thread.came = thread.came.saturating_add(u32::try_from(accesses).unwrap_or(u32::MAX));
        thread.coming.pop_front();
        if thread.ahead.as_ref().is_some_and(|(_, until)| until.is_none()) {
            thread.ahead = None;
        }
        thread.items.extend(items);
    }

    /// The number of what a call means.
    fn meaning(&mut self, meaning: Meaning) -> u32 {
        let meanings = &mut self.meanings;
        *self.by_meaning.entry(meaning).or_insert_with(|| {
            meanings.push(meaning);
            meanings.len() as u32 - 1
        })
    }

    /// Goes on as far as it is known what comes next. If all is known, to the end.
    pub(super) fn run(&mut self, is_over: bool) {
        loop {
            let (mut first, mut second, mut horizon): (Option<(usize, u64)>, _, _) =
                (None, u64::MAX, u64::MAX);
            for index in 0..self.threads.len() {
                match self.next(index) {
                    Next::At(time) => match first {
                        Some((_, earliest)) if earliest <= time => second = second.min(time),
                        _ => {
                            second = first.map_or(second, |(_, time)| time.min(second));
                            first = Some((index, time));
                        }
                    },
                    Next::NotBefore(time) => horizon = horizon.min(time),
                    Next::Begun | Next::Never => {}
                }
            }
            let Some((index, time)) = first else {
                if is_over && self.begin_any() {
                    continue;
                }
                return;
            };
            if time > horizon {
                if self.waiting < MOST_WAITING {
                    return;
                }
                self.is_hurried = true;
                horizon = second;
            }
            let until = second.min(horizon);
            while let Next::At(time) = self.next(index)
                && time <= until.max(self.threads[index].time * 2)
            {
                self.step(index);
                // Whoever has just begun may come first now.
                if std::mem::take(&mut self.has_announced) {
                    break;
                }
            }
        }
    }

    fn next(&mut self, index: usize) -> Next {
        let thread = &mut self.threads[index];
        let may_begin = self.starts.contains_key(&thread.number);
        let is_over = thread.coming.is_empty();
        let Some(item) = thread.items.front() else {
            // Whoever waits in the kernel is in nobody's way until that is over.
            return match thread.coming.front() {
                Some(_) if thread.has_ended => Next::Never,
                Some(segment) if thread.has_begun => Next::NotBefore(segment.time.max(thread.time) * 2),
                Some(_) => Next::NotBefore(thread.time * 2),
                None => Next::Never,
            };
        };
        // Whoever takes at the moment at which another gives comes second.
        let (time, takes) = match *item {
            Item::Begin if !may_begin => return Next::Begun,
            Item::Locked { after, .. } if thread.has_given => (after, 1),
            Item::Locked { before, .. } => (before, 0),
            Item::Call { meaning, .. }
                if thread.items.len() < 2 && !is_over && self.meanings[meaning as usize].begins =>
            {
                return Next::NotBefore(thread.time * 2);
            }
            Item::Call { time, .. } => (time, 0),
            Item::Result { time, .. } => (time, 1),
            Item::Load { .. } | Item::Look { .. } => match thread.ahead().1 {
                Some(time) => (time, 1),
                None if is_over => (LATEST, 1),
                None => return Next::NotBefore(thread.time * 2),
            },
            Item::Access { .. } | Item::Store { .. } | Item::Begin | Item::Signal => (thread.time, 0),
        };
        Next::At(time.max(thread.time) * 2 + takes)
    }

    /// A thread that nobody is known to have begun.
    fn begin_any(&mut self) -> bool {
        let waits = |thread: &&Thread| matches!(thread.items.front(), Some(Item::Begin));
        let number = self.threads.iter().find(waits).map(|thread| thread.number);
        number.is_some_and(|number| self.starts.insert(number, Clock::default()).is_none())
    }

    fn step(&mut self, index: usize) {
        if let Some(&Item::Load { words }) = self.threads[index].items.front() {
            self.let_others_store(index, words);
        }
        self.take(index);
    }

    /// Before a thread loads: others go on up to where they may have stored by then.
    fn let_others_store(&mut self, index: usize, words: Words) {
        let now = self.threads[index].ahead().1.unwrap_or(u64::MAX);
        for other in (0..self.threads.len()).filter(|&other| other != index) {
            let thread = &mut self.threads[other];
            let stores = thread.has_begun
                && thread.time <= now
                && thread.ahead().0.iter().any(|stored| stored.overlaps(words));
            if stores {
                self.run_to_store(other, words);
            }
        }
    }

    /// A thread goes on up to its next store to some words.
    fn run_to_store(&mut self, index: usize, words: Words) {
        while let Some(&item) = self.threads[index].items.front()
            && !matches!(item, Item::Begin)
        {
            self.take(index);
            if matches!(item, Item::Store { words: stored } if stored.overlaps(words)) {
                return;
            }
        }
    }

    /// The next item of a thread happens.
    fn take(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        let Some(&item) = thread.items.front() else { return };
        if !thread.has_begun && !matches!(item, Item::Begin) {
            self.begin(index);
        }
        let thread = &mut self.threads[index];
        match item {
            Item::Locked { words, before, after } => {
                if !std::mem::replace(&mut thread.has_given, true) {
                    thread.time = thread.time.max(before);
                    self.give(index, words);
                    return;
                }
                thread.has_given = false;
                thread.time = thread.time.max(after);
                self.learn(index, words);
            }
            Item::Load { words } => self.learn(index, words),
            Item::Store { words } => {
                if let Some((stores, _)) = &mut thread.ahead {
                    stores.pop_front();
                }
                self.give(index, words);
            }
            Item::Look { thread: other } => {
                if let Some(end) = self.ends.get(&other) {
                    thread.clock.join(end);
                }
            }
            Item::Signal => thread.clock.join(&self.signals),
            Item::Access { granule, mask, is_write, spot } => {
                self.access(index, granule, mask, is_write, spot)
            }
            Item::Begin => self.begin(index),
            Item::Call { meaning, time } => self.call(index, self.meanings[meaning as usize], time),
            Item::Result { value, time } => self.result(index, value, time),
        }
        let thread = &mut self.threads[index];
        thread.items.pop_front();
        self.waiting -= 1;
        if matches!(item, Item::Locked { .. } | Item::Call { .. } | Item::Result { .. }) {
            thread.ahead = None;
        }
    }

    /// A thread gives what it knows to some words, and goes on.
    fn give(&mut self, index: usize, words: Words) {
        let thread = &mut self.threads[index];
        for word in words.all() {
            self.words.entry(word).or_default().join(&thread.clock);
        }
        thread.clock.advance(thread.place);
    }

    /// A thread learns what was given to some words.
    fn learn(&mut self, index: usize, words: Words) {
        for word in words.all() {
            if let Some(word) = self.words.get(&word) {
                self.threads[index].clock.join(word);
            }
        }
    }

    fn begin(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        thread.place = self.places.len() as u32;
        self.places.push(thread.number);
        thread.clock = self.starts.remove(&thread.number).unwrap_or_default();
        thread.clock.advance(thread.place);
        thread.has_begun = true;
    }

    fn access(&mut self, index: usize, granule: u64, mask: u8, is_write: bool, spot: Spot) {
        let thread = &mut self.threads[index];
        let access = Access { spot: self.found.spot(spot), number: thread.accesses };
        thread.accesses = thread.accesses.saturating_add(1);
        let now = Now { clock: &thread.clock, thread: thread.place, access, is_write };
        let (found, places) = (&mut self.found, &self.places);
        self.shadow.access(granule, mask, now, &mut |conflict| {
            let threads = [places[conflict.thread as usize], thread.number];
            found.add(granule * 8 + u64::from(mask.trailing_zeros()), &conflict, (access, is_write), threads);
        });
    }

    /// The segment that an access of a thread is in, and its number among those of the segment. The last of all numbers stands for all that come
    /// behind it.
    pub(super) fn moment(&self, thread: u32, number: u32) -> Option<Moment> {
        let thread = &self.threads[*self.by_number.get(&thread)?];
        let next = thread.segments.partition_point(|&(first, _)| first <= number);
        let &(first, segment) = thread.segments.get(next.checked_sub(1)?)?;
        (number < u32::MAX).then_some(Moment { segment, access: number - first })
    }

    fn given(&mut self, through: Through) -> &mut Clock {
        match through {
            Through::Word(address) => self.words.entry(address / 4).or_default(),
            Through::Files => &mut self.files,
            Through::Signals => &mut self.signals,
        }
    }

    fn call(&mut self, index: usize, meaning: Meaning, time: u64) {
        let thread = &mut self.threads[index];
        thread.time = thread.time.max(time);
        thread.call = Some(meaning);
        if meaning.begins
            && let Some(Item::Result { value, .. }) = thread.items.get(1)
            && let Ok(number) = u32::try_from(*value)
        {
            let clock = thread.clock.clone();
            thread.clock.advance(thread.place);
            self.announce(number, clock, time);
        }
        let thread = &mut self.threads[index];
        if meaning.ends {
            thread.has_ended = true;
            self.ends.insert(thread.number, thread.clock.clone());
            thread.clock.advance(thread.place);
        }
        if meaning.leaves {
            self.left.insert(thread.number, thread.clock.clone());
            thread.clock.advance(thread.place);
        }
        if let Some(through) = meaning.gives {
            let clock = self.threads[index].clock.clone();
            self.given(through).join(&clock);
            let thread = &mut self.threads[index];
            thread.clock.advance(thread.place);
        }
        if let Some((start @ 1.., len)) = meaning.forgets {
            self.shadow.forget(start, len);
        }
    }

    /// A thread begins, if it is not another process. What `vfork` begins is a thread here before it is the first of another.
    fn announce(&mut self, number: u32, clock: Clock, time: u64) {
        let Some(to_begin) = self.to_begin.get_mut(&number).filter(|left| **left > 0) else { return };
        *to_begin -= 1;
        self.starts.insert(number, clock);
        self.has_announced = true;
        let index = self.thread(number, time);
        let thread = &mut self.threads[index];
        // One that had the same number before has ended.
        (thread.has_begun, thread.has_ended, thread.time) = (false, false, thread.time.max(time));
    }

    /// What a child knew that is gone before whoever has begun it goes on.
    fn known_to(&mut self, meaning: Meaning, child: u32) -> Option<Clock> {
        let left = self.left.remove(&child);
        match self.by_number.get(&child) {
            // However it has ended.
            Some(&index) if meaning.waits => Some(self.threads[index].clock.clone()),
            // Of `clone3`, nobody knows whether it waits; but no other child is gone by then.
            _ => left,
        }
    }

    fn result(&mut self, index: usize, value: u64, time: u64) {
        let thread = &mut self.threads[index];
        thread.time = thread.time.max(time);
        let Some(meaning) = thread.call.take() else { return };
        if meaning.leaves {
            // It failed.
            self.left.remove(&thread.number);
        }
        if meaning.begins
            && let Ok(child) = u32::try_from(value)
            && let Some(known) = self.known_to(meaning, child)
        {
            self.threads[index].clock.join(&known);
        }
        if let Some(through) = meaning.takes {
            let clock = self.given(through).clone();
            self.threads[index].clock.join(&clock);
        }
        if let Some((0, len)) = meaning.forgets {
            self.shadow.forget(value, len);
        }
    }
}

impl Thread {
    fn new(number: u32) -> Self {
        Self {
            number,
            place: 0,
            clock: Clock::default(),
            items: VecDeque::new(),
            coming: VecDeque::new(),
            came: 0,
            accesses: 0,
            segments: Vec::new(),
            time: 0,
            has_given: false,
            has_begun: false,
            has_ended: false,
            call: None,
            ahead: None,
        }
    }

    /// The plain stores before the next moment that is known, and that moment.
    fn ahead(&mut self) -> &(VecDeque<Words>, Option<u64>) {
        self.ahead.get_or_insert_with(|| {
            let mut stores = VecDeque::new();
            for item in &self.items {
                match *item {
                    Item::Store { words } => stores.push_back(words),
                    Item::Locked { after, .. } => return (stores, Some(after)),
                    Item::Call { time, .. } | Item::Result { time, .. } => return (stores, Some(time)),
                    _ => {}
                }
            }
            (stores, None)
        })
    }
}
