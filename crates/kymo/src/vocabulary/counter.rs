//! What the kernel's own counters have counted: see [`counter`](mod@crate::counter).

use super::Cpu;
use crate::Sequence;

/// Most buckets in one record, so that packets of 256 bytes can hold it.
pub const BUCKETS_AT_ONCE: usize = 16;

crate::event! {
    /// A counter of one CPU. Recorded by the library when the kernel calls `Tracer::tick`, and at
    /// the end of the session; if a session was not stopped, by the host that reads its memory.
    #[id(152)]
    #[name("kymo_counter")]
    pub struct CounterValue {
        /// The CPU that has counted.
        pub cpu: Cpu,
        /// The counter. The metadata has the names.
        pub counter: u32,
        /// Its value since the kernel has started, modulo 2 to the number of bits that the trace's
        /// environment gives.
        pub value: u64,
    }
}

crate::event! {
    /// A gauge of one CPU: what this CPU has added to it. The gauge's value is the sum over all
    /// CPUs.
    #[id(153)]
    #[name("kymo_gauge")]
    pub struct GaugeValue {
        /// The CPU.
        pub cpu: Cpu,
        /// The gauge. The metadata has the names.
        pub counter: u32,
        /// What this CPU has added.
        pub value: i64,
    }
}

crate::event! {
    /// A histogram of one CPU, or a part of it: buckets that are not in it have not changed since
    /// they were recorded last.
    #[id(154)]
    #[name("kymo_histogram")]
    pub struct HistogramValue {
        /// The CPU that has counted.
        pub cpu: Cpu,
        /// The histogram. The metadata has the names.
        pub counter: u32,
        /// The sum of all values, of all buckets.
        pub sum: u64,
        /// The bucket with which `buckets` begins.
        pub first: u32,
        /// How many values each bucket has: bucket 0 those that are 0, bucket `n` those of `n`
        /// bits, from 2 to the power of `n` - 1 on.
        pub buckets: Sequence<u64, BUCKETS_AT_ONCE>,
    }
}

super::subject! {
    CounterValue,
    GaugeValue,
    HistogramValue,
}
