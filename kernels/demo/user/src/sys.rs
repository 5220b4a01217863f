//! The system calls as functions; [`crate::abi`] describes them.

use crate::abi::{Call, Diagnostics, Error, Kind, Session, Status};
use crate::arch;

/// A call, by its number.
///
/// # Safety
/// The call must write only to memory that the caller may pass for writing.
unsafe fn raw(number: usize, arguments: [usize; 5]) -> Result<usize, Error> {
    // SAFETY: as promised.
    let result = unsafe { arch::call(number, arguments) };
    match usize::try_from(result) {
        Ok(value) => Ok(value),
        Err(_) => Err(Error::of(-(result as i64)).unwrap_or(Error::Invalid)),
    }
}

/// A call with valid arguments.
fn call(call: Call, arguments: [usize; 5]) -> Result<usize, Error> {
    // SAFETY: the functions below pass pointers to borrowed memory.
    unsafe { raw(call as usize, arguments) }
}

/// A call with any arguments, to test its answer.
///
/// # Safety
/// The memory that the call writes must not be in use.
pub unsafe fn any(number: usize, arguments: [usize; 5]) -> Result<usize, Error> {
    // SAFETY: as promised.
    unsafe { raw(number, arguments) }
}

/// Ends the process.
pub fn exit(status: u8) -> ! {
    let _ = call(Call::Exit, [status.into(), 0, 0, 0, 0]);
    give_up()
}

pub use arch::give_up;

pub fn getpid() -> usize {
    call(Call::Getpid, [0; 5]).unwrap_or(0)
}

pub fn yield_now() {
    let _ = call(Call::Yield, [0; 5]);
}

pub fn sleep(us: u64) {
    let _ = call(Call::Sleep, [us as usize, 0, 0, 0, 0]);
}

pub fn time() -> u64 {
    call(Call::Time, [0; 5]).unwrap_or(0) as u64
}

/// Works in the kernel for a known time.
pub fn work(masked: bool) {
    let _ = call(Call::Work, [masked.into(), 0, 0, 0, 0]);
}

pub fn write(text: &[u8]) -> Result<usize, Error> {
    call(Call::Write, [text.as_ptr() as usize, text.len(), 0, 0, 0])
}

pub fn spawn(line: &str, rights: usize) -> Result<usize, Error> {
    call(
        Call::Spawn,
        [line.as_ptr() as usize, line.len(), rights, 0, 0],
    )
}

/// Returns only on an error.
pub fn exec(line: &str) -> Error {
    call(Call::Exec, [line.as_ptr() as usize, line.len(), 0, 0, 0])
        .err()
        .unwrap_or(Error::Invalid)
}

pub fn kill(pid: usize) -> Result<usize, Error> {
    call(Call::Kill, [pid, 0, 0, 0, 0])
}

pub fn wait(pid: usize) -> Result<u8, Error> {
    call(Call::Wait, [pid, 0, 0, 0, 0]).map(|status| status as u8)
}

pub fn map(pages: usize) -> Result<*mut u8, Error> {
    call(Call::Map, [pages, 0, 0, 0, 0]).map(|address| address as *mut u8)
}

pub fn mark(id: u32, value: u64) {
    let _ = call(Call::Mark, [id as usize, value as usize, 0, 0, 0]);
}

pub fn span_begin(id: u32) {
    let _ = call(Call::SpanBegin, [id as usize, 0, 0, 0, 0]);
}

pub fn span_end(id: u32) {
    let _ = call(Call::SpanEnd, [id as usize, 0, 0, 0, 0]);
}

pub fn counter(id: u32, value: i64) {
    let _ = call(Call::Counter, [id as usize, value as usize, 0, 0, 0]);
}

pub fn send(port: usize, value: usize) -> Result<usize, Error> {
    call(Call::Send, [port, value, 0, 0, 0])
}

pub fn receive(port: usize) -> Result<usize, Error> {
    call(Call::Receive, [port, 0, 0, 0, 0])
}

pub fn pipe_write(pipe: usize, bytes: &[u8]) -> Result<usize, Error> {
    call(
        Call::PipeWrite,
        [pipe, bytes.as_ptr() as usize, bytes.len(), 0, 0],
    )
}

pub fn pipe_read(pipe: usize, buffer: &mut [u8]) -> Result<usize, Error> {
    call(
        Call::PipeRead,
        [pipe, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0],
    )
}

pub fn is_alive(id: usize, kind: Kind) -> bool {
    call(Call::Poll, [id, kind as usize, 0, 0, 0]) == Ok(1)
}

pub fn workload(name: &str) -> Result<usize, Error> {
    call(
        Call::Workload,
        [name.as_ptr() as usize, name.len(), 0, 0, 0],
    )
}

pub fn port_write(bytes: &[u8]) -> Result<usize, Error> {
    call(
        Call::PortWrite,
        [bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
    )
}

pub fn port_read(buffer: &mut [u8]) -> Result<usize, Error> {
    call(
        Call::PortRead,
        [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
    )
}

pub fn perf_start(mode: u32, flags: u32, session: &Session, events: &str) -> Result<usize, Error> {
    let session = &raw const *session as usize;
    call(
        Call::PerfStart,
        [
            mode as usize,
            flags as usize,
            session,
            events.as_ptr() as usize,
            events.len(),
        ],
    )
}

pub fn perf_read(mode: u32, channel: u32, buffer: &mut [u8]) -> Result<usize, Error> {
    call(
        Call::PerfRead,
        [
            mode as usize,
            channel as usize,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            0,
        ],
    )
}

pub fn perf_stop(mode: u32) -> Result<usize, Error> {
    call(Call::PerfStop, [mode as usize, 0, 0, 0, 0])
}

pub fn perf_finish(mode: u32) -> Result<Diagnostics, Error> {
    let mut diagnostics = Diagnostics::default();
    call(
        Call::PerfFinish,
        [mode as usize, &raw mut diagnostics as usize, 0, 0, 0],
    )
    .map(|_| diagnostics)
}

pub fn perf_switch(mode: u32, name: &str, on: bool) -> Result<usize, Error> {
    call(
        Call::PerfSwitch,
        [
            mode as usize,
            name.as_ptr() as usize,
            name.len(),
            on.into(),
            0,
        ],
    )
}

pub fn perf_status() -> Result<Status, Error> {
    let mut status = Status::default();
    call(Call::PerfStatus, [&raw mut status as usize, 0, 0, 0, 0]).map(|_| status)
}

pub fn perf_dump(newest: usize) -> Result<usize, Error> {
    call(Call::PerfDump, [newest, 0, 0, 0, 0])
}

pub fn perf_clear() -> Result<usize, Error> {
    call(Call::PerfClear, [0; 5])
}
