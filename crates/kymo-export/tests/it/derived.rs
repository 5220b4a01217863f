//! Tables of what events mean together.

use std::fs;
use std::path::Path;

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Object, Pid, ProcessName, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName,
    ThreadName, ThreadState, ThreadStateDump, Tid,
};
use kymo_export::{Format, export};
use kymo_made::{Made, US};

/// Thread 1 holds a lock in a system call, is interrupted, and wakes thread 2, which waits for it.
fn made() -> Made {
    let mut made = Made::new("derived");
    let (lock, kind) = (Object(9), LockKind::Mutex);
    let waits = (ThreadState::Blocked, SwitchReason::Waits);
    let expired = (ThreadState::Runnable, SwitchReason::Expired);
    for (tid, pid, name) in [(1, 10, "a"), (2, 20, "b,c")] {
        let dump = ThreadStateDump {
            tid: Tid(tid),
            pid: Pid(pid),
            prio: 0,
            state: ThreadState::Runnable,
            cpu: kymo::vocabulary::Cpu(0),
            name: Text::new(name),
        };
        made.event(0, 0, dump);
        let (tid, name) = (Tid(tid), Text::new(name));
        made.event(0, 0, ThreadName { tid, name });
    }
    let name = Text::new("shop");
    made.event(0, 0, ProcessName { pid: Pid(10), name });
    let name = Text::new("net");
    made.event(0, 0, IrqName { irq: Irq(5), name });
    let name = Text::new("buf");
    made.event(0, 0, LockName { lock, kind, name });
    let (id, name) = (Syscall(3), Text::new("read"));
    made.event(0, 0, SyscallName { id, name });

    made.switch(0, US, (0, expired.0, expired.1), (1, 0));
    let enter = SyscallEnter { id, arg0: 0 };
    made.event(0, 2 * US, enter);
    let acquired = |contended| LockAcquired {
        lock,
        kind,
        contended,
    };
    made.event(0, 3 * US, acquired(false));
    made.event(0, 4 * US, IrqEnter { irq: Irq(5) });
    made.event(0, 6 * US, IrqExit { irq: Irq(5) });
    made.switch(0, 7 * US, (1, expired.0, expired.1), (2, 0));
    let owner_tid = Tid(1);
    let wait = LockWait {
        lock,
        owner_tid,
        kind,
    };
    made.event(0, 8 * US, wait);
    made.switch(0, 9 * US, (2, waits.0, waits.1), (1, 0));
    made.event(0, 10 * US, LockReleased { lock, kind });
    made.wake(0, 11 * US, 2, 1);
    made.event(0, 12 * US, SyscallExit { id, ret: -2 });
    made.switch(0, 13 * US, (1, expired.0, expired.1), (2, 0));
    made.event(0, 14 * US, acquired(true));
    made.switch(0, 15 * US, (2, waits.0, waits.1), (0, 0));
    made
}

/// The head of every table.
const COMMON: &str = "begin_ns,end_ns,duration_ns,cpu";
const THREAD: &str = "tid,thread,pid,process";

fn table(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(format!("_{name}.csv"))).unwrap()
}

#[test]
fn spans_are_rows_of_their_kind() {
    let mut made = made();
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let folder = std::env::temp_dir().join(format!("kymo-export-derived-{}", std::process::id()));
    export(&trace, Format::Csv, &folder, |_| ()).unwrap();
    let expected: [(&str, String, &[&str]); 7] = [
        (
            "slices",
            format!("{COMMON},{THREAD}"),
            &[
                "1000,7000,6000,0,1,a,10,shop",
                "7000,9000,2000,0,2,\"b,c\",20,",
                "9000,13000,4000,0,1,a,10,shop",
                "13000,15000,2000,0,2,\"b,c\",20,",
            ],
        ),
        (
            "off_cpu",
            format!("{COMMON},{THREAD}"),
            &[
                "7000,9000,2000,0,1,a,10,shop",
                "9000,13000,4000,0,2,\"b,c\",20,",
            ],
        ),
        (
            "wakeups",
            format!("{COMMON},{THREAD},waker,waker_tid"),
            &["11000,13000,2000,0,2,\"b,c\",20,,thread,1"],
        ),
        (
            "syscalls",
            format!("{COMMON},{THREAD},number,name,failed"),
            &["2000,12000,10000,0,1,a,10,shop,3,read,1"],
        ),
        (
            "interrupts",
            format!("{COMMON},number,name,soft"),
            &["4000,6000,2000,0,5,net,0"],
        ),
        (
            "lock_waits",
            format!("{COMMON},{THREAD},number,name,owner_tid,owner"),
            &["8000,14000,6000,0,2,\"b,c\",20,,9,buf,1,a"],
        ),
        (
            "lock_holds",
            format!("{COMMON},{THREAD},number,name"),
            &["3000,10000,7000,0,1,a,10,shop,9,buf"],
        ),
    ];
    for (name, head, rows) in expected {
        let lines: String = [head.as_str()]
            .iter()
            .chain(rows)
            .map(|line| format!("{line}\r\n"))
            .collect();
        assert_eq!(table(&folder, name), lines, "{name}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
