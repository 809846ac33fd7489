// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All there is about one line: its copies, states, operations in progress and messages under way.

use crate::words::{CacheState, DeviceOp, HostOp, Lane, LineHome, Opcode, Party};

/// How old the data of a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataCopy(u8);

impl DataCopy {
    /// Older than the last write.
    pub const OLD: DataCopy = DataCopy(0);
    pub const LAST: DataCopy = DataCopy(0b111);
    const IS_LAST: u8 = 1;

    fn since(party: Party) -> u8 {
        match party {
            Party::Device => 0b10,
            Party::Host => 0b100,
        }
    }

    pub fn is_last(self) -> bool {
        self.0 & Self::IS_LAST != 0
    }

    /// Whether it was the last write's at some moment since the party's operation began.
    pub fn was_last_for(self, party: Party) -> bool {
        self.0 & Self::since(party) != 0
    }

    fn age(&mut self) {
        self.0 &= !Self::IS_LAST;
    }

    /// No operation of the party is in progress: the next one begins now or later.
    fn settle(&mut self, party: Party) {
        let bit = Self::since(party);
        self.0 = if self.is_last() {
            self.0 | bit
        } else {
            self.0 & !bit
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub opcode: Opcode,
    /// Its data, where the channel has any.
    pub copy: DataCopy,
}

impl Message {
    /// Without data, or with data that is written only when it arrives.
    pub fn new(opcode: Opcode) -> Self {
        Self::with(opcode, DataCopy::OLD)
    }

    pub fn with(opcode: Opcode, copy: DataCopy) -> Self {
        Message { opcode, copy }
    }
}

/// Messages under way, by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wires([Option<Message>; Lane::ALL.len()]);

impl Wires {
    pub const EMPTY: Wires = Wires([None; Lane::ALL.len()]);

    pub fn get(&self, lane: Lane) -> Option<Message> {
        self.0[lane as usize]
    }

    /// Sends; false if the channel's places are taken.
    pub fn put(&mut self, lane: Lane, message: Message) -> bool {
        let lane = match self.get(lane) {
            Some(_) if lane == Lane::M2sReq => Lane::M2sReqBehind,
            _ => lane,
        };
        let place = &mut self.0[lane as usize];
        let is_free = place.is_none();
        *place = Some(message);
        is_free
    }

    /// Takes a message out; what is behind it moves up.
    pub fn take(&mut self, lane: Lane) -> Option<Message> {
        let message = self.0[lane as usize].take();
        if lane == Lane::M2sReq {
            self.0[lane as usize] = self.0[Lane::M2sReqBehind as usize].take();
        }
        message
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// What a side has of the answer that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The answer without its data.
    pub opcode: Option<Opcode>,
    pub data: Option<DataCopy>,
}

/// What a side works on, and what it has of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job<T> {
    /// The task; none: idle.
    pub task: Option<T>,
    /// The answer so far.
    pub answer: Answer,
}

impl<T> Job<T> {
    pub const IDLE: Job<T> = Job {
        task: None,
        answer: Answer {
            opcode: None,
            data: None,
        },
    };

    pub fn waiting(task: T) -> Self {
        Job {
            task: Some(task),
            ..Self::IDLE
        }
    }

    pub fn is_idle(&self) -> bool {
        self.task.is_none()
    }
}

/// What DCOH works on for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceTask {
    /// An operation of the accelerator.
    Op(DeviceOp),
    /// A line leaves the HMC.
    Evict,
}

/// What the home agent works on for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostTask {
    /// An operation of a core.
    Op(HostOp),
    /// A line leaves the LLC for device memory.
    Evict,
    /// Waits for the line that a request of the device writes.
    Pull(Opcode),
    /// Waits until the LLC's newer line is in device memory; then the request of the device goes on.
    WriteBackFor(Opcode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceSide {
    pub state: CacheState,
    pub copy: DataCopy,
    pub job: Job<DeviceTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostSide {
    pub state: CacheState,
    pub copy: DataCopy,
    /// A core's own caches have the line too.
    pub is_in_core: bool,
    /// What the snoop filter knows of the device: nothing, shared, exclusive.
    pub tracked: CacheState,
    /// What the home agent works on.
    pub job: Job<HostTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoherentLine {
    pub home: LineHome,
    pub memory: DataCopy,
    pub device: DeviceSide,
    pub host: HostSide,
    pub wires: Wires,
}

impl CoherentLine {
    pub fn in_memory(home: LineHome) -> Self {
        CoherentLine {
            home,
            memory: DataCopy::LAST,
            device: DeviceSide {
                state: CacheState::Invalid,
                copy: DataCopy::OLD,
                job: Job::IDLE,
            },
            host: HostSide {
                state: CacheState::Invalid,
                copy: DataCopy::OLD,
                is_in_core: false,
                tracked: CacheState::Invalid,
                job: Job::IDLE,
            },
            wires: Wires::EMPTY,
        }
    }

    /// A line that caches have in these states, without anything under way. Memory is up to date unless one
    /// of them has changed it.
    pub fn cached(home: LineHome, device: CacheState, llc: CacheState) -> Self {
        let mut line = Self::in_memory(home);
        line.device.state = device;
        line.host.state = llc;
        line.host.tracked = match (home, device) {
            (LineHome::DeviceMemory, _) | (_, CacheState::Invalid) => CacheState::Invalid,
            (_, CacheState::Shared) => CacheState::Shared,
            _ => CacheState::Exclusive,
        };
        line.device.copy = DataCopy::LAST;
        line.host.copy = DataCopy::LAST;
        if device == CacheState::Modified || llc == CacheState::Modified {
            line.memory = DataCopy::OLD;
        }
        line.settle();
        line
    }

    /// A write takes place: all other copies are older from now on. Gives the copy that it makes.
    pub fn write(&mut self) -> DataCopy {
        self.each_copy(DataCopy::age);
        DataCopy::LAST
    }

    pub fn is_quiet(&self) -> bool {
        self.device.job.is_idle() && self.host.job.is_idle() && self.wires.is_empty()
    }

    /// Brings what has no meaning any more into one form, so that equal lines are equal.
    pub fn settle(&mut self) {
        if !self.device.state.is_valid() {
            self.device.copy = DataCopy::OLD;
        }
        if !self.host.state.is_valid() && !self.host.is_in_core {
            self.host.copy = DataCopy::OLD;
        }
        if self.device.job.is_idle() {
            self.device.job = Job::IDLE;
            self.each_copy(|copy| copy.settle(Party::Device));
        }
        if self.host.job.is_idle() {
            self.host.job = Job::IDLE;
            self.each_copy(|copy| copy.settle(Party::Host));
        }
    }

    fn each_copy(&mut self, change: impl Fn(&mut DataCopy)) {
        change(&mut self.memory);
        change(&mut self.device.copy);
        change(&mut self.host.copy);
        self.device.job.answer.data.iter_mut().for_each(&change);
        self.host.job.answer.data.iter_mut().for_each(&change);
        for message in self.wires.0.iter_mut().flatten() {
            change(&mut message.copy);
        }
    }
}
