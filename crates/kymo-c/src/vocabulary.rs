//! The vocabulary as texts and numbers, so that the library needs no code to write its metadata.
//!
//! Made by `tests/header.rs` from the declarations of the crate `kymo`.

use kymo::ChannelKind;
use kymo::event::{Declared, Shape};

use crate::config::CConfig;
use crate::session::kymo_start;

/// An event of the vocabulary.
#[derive(Debug)]
pub struct Event {
    /// The id.
    pub id: u16,
    /// Bytes of its name.
    pub name: u8,
    /// The channel that it goes to.
    pub channel: ChannelKind,
    /// Words of its longest record, header included.
    pub words: u16,
    /// Its shape, as a word.
    pub shape: u32,
    /// Its declaration in the metadata, which begins with its name.
    pub text: &'static str,
}

impl Event {
    /// What the ring must know.
    pub(crate) fn declared(&self) -> Declared {
        Declared {
            id: self.id.into(),
            name: self.name(),
            channel: self.channel,
            shape: Shape::from_word(self.shape),
            words: self.words.into(),
        }
    }

    /// Its name, which its declaration begins with.
    pub(crate) fn name(&self) -> &'static str {
        let begin = "event {\n\tname = \"".len();
        let end = begin + usize::from(self.name);
        self.text.get(begin..end).unwrap_or_default()
    }
}

/// Where the header looks for the switches of event 0, of event 32, of name 32, and of the contexts
/// of these two events: bytes from the first control block.
pub const PLACES: [usize; 5] = [96, 516, 1284, 1632, 2052];

/// Bytes of memory for each CPU that counts, which the header's macro makes.
pub const CPU_SIZE: usize = 10240;

/// The events.
pub static VOCABULARY: &[Event] = &[
    Event {
        id: 1,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "sched_switch";
	id = 1;
	stream_id = 0;
	fields := struct {
		uint32_t _prev_tid;
		uint32_t _next_tid;
		enum : uint8_t { "Runnable" = 0, "Blocked" = 1, "Sleeping" = 2, "Suspended" = 3, "Ended" = 4 } _prev_state;
		enum : uint8_t { "Preempted" = 0, "Expired" = 1, "Yielded" = 2, "Waits" = 3, "Suspended" = 4, "Ended" = 5, "Idle" = 6 } _reason;
		int16_t _next_prio;
	};
};

"#,
    },
    Event {
        id: 4,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "sched_wakeup";
	id = 4;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint32_t _waker_tid;
		uint32_t _target_cpu;
	};
};

"#,
    },
    Event {
        id: 71,
        name: 16,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "sched_wakeup_new";
	id = 71;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint32_t _waker_tid;
		uint32_t _target_cpu;
	};
};

"#,
    },
    Event {
        id: 15,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0x0,
        words: 1,
        text: r#"event {
	name = "sched_enter";
	id = 15;
	stream_id = 0;
	fields := struct {
	};
};

"#,
    },
    Event {
        id: 16,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0x0,
        words: 1,
        text: r#"event {
	name = "sched_exit";
	id = 16;
	stream_id = 0;
	fields := struct {
	};
};

"#,
    },
    Event {
        id: 64,
        name: 13,
        channel: ChannelKind::Events,
        shape: 0xe,
        words: 6,
        text: r#"event {
	name = "thread_create";
	id = 64;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint32_t _pid;
		uint32_t _parent_tid;
		int16_t _prio;
	};
};

"#,
    },
    Event {
        id: 65,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0x9,
        words: 5,
        text: r#"event {
	name = "thread_exit";
	id = 65;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint32_t _pid;
		enum : uint8_t { "Runnable" = 0, "Blocked" = 1, "Sleeping" = 2, "Suspended" = 3, "Ended" = 4 } _prev_state;
	};
};

"#,
    },
    Event {
        id: 66,
        name: 14,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 3,
        text: r#"event {
	name = "thread_suspend";
	id = 66;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
	};
};

"#,
    },
    Event {
        id: 67,
        name: 13,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 3,
        text: r#"event {
	name = "thread_resume";
	id = 67;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
	};
};

"#,
    },
    Event {
        id: 68,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "thread_delay";
	id = 68;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint64_t _ticks;
	};
};

"#,
    },
    Event {
        id: 69,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 3,
        text: r#"event {
	name = "thread_yield";
	id = 69;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
	};
};

"#,
    },
    Event {
        id: 70,
        name: 16,
        channel: ChannelKind::Events,
        shape: 0x10,
        words: 6,
        text: r#"event {
	name = "sched_pi_setprio";
	id = 70;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		int16_t _oldprio;
		int16_t _newprio;
		hex64_t _lock;
	};
};

"#,
    },
    Event {
        id: 72,
        name: 15,
        channel: ChannelKind::Events,
        shape: 0x8,
        words: 4,
        text: r#"event {
	name = "sched_run_queue";
	id = 72;
	stream_id = 0;
	fields := struct {
		uint32_t _cpu;
		uint32_t _len;
	};
};

"#,
    },
    Event {
        id: 32,
        name: 11,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "thread_name";
	id = 32;
	stream_id = 1;
	fields := struct {
		uint32_t _tid;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 48,
        name: 12,
        channel: ChannelKind::Names,
        shape: 0x10010,
        words: 23,
        text: r#"event {
	name = "thread_state";
	id = 48;
	stream_id = 1;
	fields := struct {
		uint32_t _tid;
		uint32_t _pid;
		int16_t _prio;
		enum : uint8_t { "Runnable" = 0, "Blocked" = 1, "Sleeping" = 2, "Suspended" = 3, "Ended" = 4 } _state;
		uint32_t _cpu;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 2,
        name: 17,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 2,
        text: r#"event {
	name = "irq_handler_entry";
	id = 2;
	stream_id = 0;
	fields := struct {
		uint32_t _irq;
	};
};

"#,
    },
    Event {
        id: 3,
        name: 16,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 2,
        text: r#"event {
	name = "irq_handler_exit";
	id = 3;
	stream_id = 0;
	fields := struct {
		uint32_t _irq;
	};
};

"#,
    },
    Event {
        id: 80,
        name: 9,
        channel: ChannelKind::Events,
        shape: 0x14,
        words: 7,
        text: r#"event {
	name = "exception";
	id = 80;
	stream_id = 0;
	fields := struct {
		uint32_t _cause;
		hex64_t _ip;
		uint64_t _value;
	};
};

"#,
    },
    Event {
        id: 35,
        name: 8,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "irq_name";
	id = 35;
	stream_id = 1;
	fields := struct {
		uint32_t _irq;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 5,
        name: 9,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "sys_enter";
	id = 5;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
		uint64_t _arg0;
	};
};

"#,
    },
    Event {
        id: 6,
        name: 8,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "sys_exit";
	id = 6;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
		int64_t _ret;
	};
};

"#,
    },
    Event {
        id: 36,
        name: 12,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "syscall_name";
	id = 36;
	stream_id = 1;
	fields := struct {
		uint32_t _id;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 7,
        name: 9,
        channel: ChannelKind::Events,
        shape: 0xd,
        words: 5,
        text: r#"event {
	name = "lock_wait";
	id = 7;
	stream_id = 0;
	fields := struct {
		hex64_t _lock;
		uint32_t _owner_tid;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
	};
};

"#,
    },
    Event {
        id: 8,
        name: 13,
        channel: ChannelKind::Events,
        shape: 0xa,
        words: 4,
        text: r#"event {
	name = "lock_acquired";
	id = 8;
	stream_id = 0;
	fields := struct {
		hex64_t _lock;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
		enum : uint8_t { "false" = 0, "true" = 1 } _contended;
	};
};

"#,
    },
    Event {
        id: 9,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0x9,
        words: 4,
        text: r#"event {
	name = "lock_release";
	id = 9;
	stream_id = 0;
	fields := struct {
		hex64_t _lock;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
	};
};

"#,
    },
    Event {
        id: 96,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0xd,
        words: 6,
        text: r#"event {
	name = "lock_failed";
	id = 96;
	stream_id = 0;
	fields := struct {
		hex64_t _lock;
		int32_t _error;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
	};
};

"#,
    },
    Event {
        id: 34,
        name: 9,
        channel: ChannelKind::Names,
        shape: 0x1000c,
        words: 22,
        text: r#"event {
	name = "lock_name";
	id = 34;
	stream_id = 1;
	fields := struct {
		hex64_t _lock;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 50,
        name: 10,
        channel: ChannelKind::Names,
        shape: 0xd,
        words: 6,
        text: r#"event {
	name = "lock_state";
	id = 50;
	stream_id = 1;
	fields := struct {
		hex64_t _lock;
		uint32_t _owner_tid;
		enum : uint8_t { "Mutex" = 0, "Semaphore" = 1, "Spin" = 2 } _kind;
	};
};

"#,
    },
    Event {
        id: 10,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0x12,
        words: 6,
        text: r#"event {
	name = "page_fault";
	id = 10;
	stream_id = 0;
	fields := struct {
		hex64_t _address;
		hex64_t _ip;
		enum : uint8_t { "Load" = 0, "Store" = 1, "Fetch" = 2 } _cause;
		enum : uint8_t { "false" = 0, "true" = 1 } _user;
	};
};

"#,
    },
    Event {
        id: 11,
        name: 13,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "mm_page_alloc";
	id = 11;
	stream_id = 0;
	fields := struct {
		uint64_t _pfn;
		uint32_t _order;
	};
};

"#,
    },
    Event {
        id: 12,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "mm_page_free";
	id = 12;
	stream_id = 0;
	fields := struct {
		uint64_t _pfn;
		uint32_t _order;
	};
};

"#,
    },
    Event {
        id: 13,
        name: 8,
        channel: ChannelKind::Events,
        shape: 0x11,
        words: 6,
        text: r#"event {
	name = "ipc_send";
	id = 13;
	stream_id = 0;
	fields := struct {
		hex64_t _port;
		uint32_t _target_tid;
		uint32_t _len;
		enum : uint8_t { "Fast" = 0, "Slow" = 1 } _path;
	};
};

"#,
    },
    Event {
        id: 14,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0x11,
        words: 6,
        text: r#"event {
	name = "ipc_receive";
	id = 14;
	stream_id = 0;
	fields := struct {
		hex64_t _port;
		uint32_t _source_tid;
		uint32_t _len;
		enum : uint8_t { "Fast" = 0, "Slow" = 1 } _path;
	};
};

"#,
    },
    Event {
        id: 112,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "pipe_write";
	id = 112;
	stream_id = 0;
	fields := struct {
		hex64_t _pipe;
		uint32_t _len;
	};
};

"#,
    },
    Event {
        id: 113,
        name: 9,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "pipe_read";
	id = 113;
	stream_id = 0;
	fields := struct {
		hex64_t _pipe;
		uint32_t _len;
	};
};

"#,
    },
    Event {
        id: 114,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "queue_send";
	id = 114;
	stream_id = 0;
	fields := struct {
		hex64_t _queue;
		uint32_t _depth;
	};
};

"#,
    },
    Event {
        id: 115,
        name: 13,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "queue_receive";
	id = 115;
	stream_id = 0;
	fields := struct {
		hex64_t _queue;
		uint32_t _depth;
	};
};

"#,
    },
    Event {
        id: 130,
        name: 18,
        channel: ChannelKind::Events,
        shape: 0x10,
        words: 6,
        text: r#"event {
	name = "sched_process_fork";
	id = 130;
	stream_id = 0;
	fields := struct {
		uint32_t _parent_tid;
		uint32_t _parent_pid;
		uint32_t _child_tid;
		uint32_t _child_pid;
	};
};

"#,
    },
    Event {
        id: 131,
        name: 18,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 5,
        text: r#"event {
	name = "sched_process_exit";
	id = 131;
	stream_id = 0;
	fields := struct {
		uint32_t _tid;
		uint32_t _pid;
		int32_t _status;
	};
};

"#,
    },
    Event {
        id: 128,
        name: 18,
        channel: ChannelKind::Events,
        shape: 0x10008,
        words: 21,
        text: r#"event {
	name = "sched_process_exec";
	id = 128;
	stream_id = 0;
	fields := struct {
		uint32_t _pid;
		uint32_t _tid;
		length_t __filename_length; flag_t __filename_cut; utf8_t _filename[__filename_length];
	};
};

"#,
    },
    Event {
        id: 129,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0x8,
        words: 4,
        text: r#"event {
	name = "process_kill";
	id = 129;
	stream_id = 0;
	fields := struct {
		uint32_t _pid;
		uint32_t _killer_tid;
	};
};

"#,
    },
    Event {
        id: 33,
        name: 12,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "process_name";
	id = 33;
	stream_id = 1;
	fields := struct {
		uint32_t _pid;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 49,
        name: 13,
        channel: ChannelKind::Names,
        shape: 0x10008,
        words: 21,
        text: r#"event {
	name = "process_state";
	id = 49;
	stream_id = 1;
	fields := struct {
		uint32_t _pid;
		uint32_t _parent_pid;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 20,
        name: 4,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "mark";
	id = 20;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
		uint64_t _value;
	};
};

"#,
    },
    Event {
        id: 17,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 2,
        text: r#"event {
	name = "span_begin";
	id = 17;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
	};
};

"#,
    },
    Event {
        id: 18,
        name: 8,
        channel: ChannelKind::Events,
        shape: 0x4,
        words: 2,
        text: r#"event {
	name = "span_end";
	id = 18;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
	};
};

"#,
    },
    Event {
        id: 19,
        name: 7,
        channel: ChannelKind::Events,
        shape: 0xc,
        words: 4,
        text: r#"event {
	name = "counter";
	id = 19;
	stream_id = 0;
	fields := struct {
		uint32_t _id;
		int64_t _value;
	};
};

"#,
    },
    Event {
        id: 37,
        name: 9,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "user_name";
	id = 37;
	stream_id = 1;
	fields := struct {
		uint32_t _id;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 160,
        name: 6,
        channel: ChannelKind::Samples,
        shape: 0x19001c,
        words: 264,
        text: r#"event {
	name = "sample";
	id = 160;
	stream_id = 2;
	fields := struct {
		hex64_t _ip;
		uint32_t _tid;
		uint64_t _period;
		uint32_t _missed;
		enum : uint8_t { "User" = 0, "Kernel" = 1, "Idle" = 2 } _mode;
		uint8_t _kernel_callers;
		enum : uint8_t { "Absent" = 0, "Complete" = 1, "Cut" = 2, "Misaligned" = 3, "Unmapped" = 4, "NotRising" = 5, "NotCode" = 6 } _kernel_end;
		enum : uint8_t { "Absent" = 0, "Complete" = 1, "Cut" = 2, "Misaligned" = 3, "Unmapped" = 4, "NotRising" = 5, "NotCode" = 6 } _user_end;
		length_t __callchain_length; flag_t __callchain_cut; hex64_t _callchain[__callchain_length];
	};
};

"#,
    },
    Event {
        id: 162,
        name: 8,
        channel: ChannelKind::Names,
        shape: 0xd,
        words: 6,
        text: r#"event {
	name = "sampling";
	id = 162;
	stream_id = 1;
	fields := struct {
		uint64_t _period;
		uint32_t _depth;
		enum : uint8_t { "Timer" = 0, "Nmi" = 1, "Ipi" = 2, "ThreadTime" = 3, "Cycles" = 4, "Instructions" = 5 } _driver;
	};
};

"#,
    },
    Event {
        id: 144,
        name: 15,
        channel: ChannelKind::Names,
        shape: 0x10,
        words: 6,
        text: r#"event {
	name = "kymo_clock_back";
	id = 144;
	stream_id = 1;
	fields := struct {
		enum : uint32_t { "Events" = 0, "Names" = 1, "Samples" = 2 } _channel;
		uint32_t _count;
		uint64_t _ticks;
	};
};

"#,
    },
    Event {
        id: 145,
        name: 16,
        channel: ChannelKind::Names,
        shape: 0x38,
        words: 16,
        text: r#"event {
	name = "kymo_session_end";
	id = 145;
	stream_id = 1;
	fields := struct {
		uint64_t _recorded;
		uint64_t _reused;
		uint64_t _discarded;
		uint64_t _too_large;
		uint64_t _clock_back;
		uint64_t _abandoned;
		uint64_t _without_ring;
	};
};

"#,
    },
];

/// The events that have what the kernel's own counters have counted.
pub static COUNTER_EVENTS: &[Event] = &[
    Event {
        id: 152,
        name: 12,
        channel: ChannelKind::Events,
        shape: 0x10,
        words: 6,
        text: r#"event {
	name = "kymo_counter";
	id = 152;
	stream_id = 0;
	fields := struct {
		uint32_t _cpu;
		counter_number_t _counter;
		uint64_t _value;
	};
};

"#,
    },
    Event {
        id: 153,
        name: 10,
        channel: ChannelKind::Events,
        shape: 0x10,
        words: 6,
        text: r#"event {
	name = "kymo_gauge";
	id = 153;
	stream_id = 0;
	fields := struct {
		uint32_t _cpu;
		gauge_number_t _counter;
		int64_t _value;
	};
};

"#,
    },
    Event {
        id: 154,
        name: 14,
        channel: ChannelKind::Events,
        shape: 0x190014,
        words: 40,
        text: r#"event {
	name = "kymo_histogram";
	id = 154;
	stream_id = 0;
	fields := struct {
		uint32_t _cpu;
		histogram_number_t _counter;
		uint64_t _sum;
		uint32_t _first;
		length_t __buckets_length; flag_t __buckets_cut; uint64_t _buckets[__buckets_length];
	};
};

"#,
    },
];

/// The events of the mode `count`.
pub static GROUP_EVENTS: &[Event] = &[
    Event {
        id: 176,
        name: 13,
        channel: ChannelKind::Names,
        shape: 0x10004,
        words: 20,
        text: r#"event {
	name = "counted_event";
	id = 176;
	stream_id = 1;
	fields := struct {
		uint8_t _group;
		uint8_t _groups;
		uint8_t _place;
		uint8_t _events;
		length_t __name_length; flag_t __name_cut; utf8_t _name[__name_length];
	};
};

"#,
    },
    Event {
        id: 177,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0x190014,
        words: 40,
        text: r#"event {
	name = "group_count";
	id = 177;
	stream_id = 0;
	fields := struct {
		uint64_t _time_enabled;
		uint64_t _time_running;
		uint8_t _group;
		length_t __counts_length; flag_t __counts_cut; uint64_t _counts[__counts_length];
	};
};

"#,
    },
];

/// The contexts of events.
pub static CONTEXT_EVENTS: &[Event] = &[
    Event {
        id: 161,
        name: 11,
        channel: ChannelKind::Samples,
        shape: 0x190014,
        words: 262,
        text: r#"event {
	name = "event_stack";
	id = 161;
	stream_id = 2;
	fields := struct {
		uint32_t _event;
		hex64_t _ip;
		uint32_t _tid;
		uint8_t _kernel_callers;
		enum : uint8_t { "Absent" = 0, "Complete" = 1, "Cut" = 2, "Misaligned" = 3, "Unmapped" = 4, "NotRising" = 5, "NotCode" = 6 } _kernel_end;
		enum : uint8_t { "Absent" = 0, "Complete" = 1, "Cut" = 2, "Misaligned" = 3, "Unmapped" = 4, "NotRising" = 5, "NotCode" = 6 } _user_end;
		length_t __callchain_length; flag_t __callchain_cut; hex64_t _callchain[__callchain_length];
	};
};

"#,
    },
    Event {
        id: 178,
        name: 11,
        channel: ChannelKind::Events,
        shape: 0x190008,
        words: 37,
        text: r#"event {
	name = "event_count";
	id = 178;
	stream_id = 0;
	fields := struct {
		uint16_t _event;
		uint8_t _group;
		uint32_t _turns;
		length_t __counts_length; flag_t __counts_cut; uint64_t _counts[__counts_length];
	};
};

"#,
    },
];

/// [`kymo_start`], by the name that this header has for it: with another one nothing
/// links.
///
/// # Safety
/// As there.
#[cfg_attr(
    not(feature = "nmi"),
    unsafe(export_name = "kymo_start_for_header_520bbe97")
)]
#[cfg_attr(
    feature = "nmi",
    unsafe(export_name = "kymo_start_for_header_520bbe97_nmi")
)]
pub unsafe extern "C" fn start(mode: u32, config: *const CConfig) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { kymo_start(mode, config) }
}

/// What whoever writes the trace inserts where a clock stepped back, in each channel.
pub const CLOCK_STEPS: &[(ChannelKind, &str)] = &[
    (
        ChannelKind::Events,
        r#"event {
	name = "kymo_clock_step";
	id = 146;
	stream_id = 0;
	fields := struct {
		uint64_t _ticks;
	};
};

"#,
    ),
    (
        ChannelKind::Names,
        r#"event {
	name = "kymo_clock_step";
	id = 146;
	stream_id = 1;
	fields := struct {
		uint64_t _ticks;
	};
};

"#,
    ),
    (
        ChannelKind::Samples,
        r#"event {
	name = "kymo_clock_step";
	id = 146;
	stream_id = 2;
	fields := struct {
		uint64_t _ticks;
	};
};

"#,
    ),
];
