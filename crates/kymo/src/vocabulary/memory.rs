//! Memory: page faults and frames.

use super::Address;

crate::enumeration! {
    /// Kinds of accesses that fault.
    pub enum FaultCause: u8 {
        /// A load.
        Load = 0,
        /// A store.
        Store = 1,
        /// An instruction fetch.
        Fetch = 2,
    }
}

crate::event! {
    /// An access faulted, because the page tables do not allow it, or not yet.
    #[id(10)]
    pub struct PageFault {
        /// The accessed address.
        pub address: Address,
        /// The instruction that accessed it.
        pub ip: Address,
        /// The kind of access.
        pub cause: FaultCause,
        /// Whether it ran in user mode.
        pub user: bool,
    }
}

crate::event! {
    /// Frames of physical memory were allocated.
    #[id(11)]
    #[name("mm_page_alloc")]
    pub struct FrameAlloc {
        /// Number of the first frame.
        pub pfn: u64,
        /// Log2 of the number of frames.
        pub order: u32,
    }
}

crate::event! {
    /// Frames of physical memory were freed.
    #[id(12)]
    #[name("mm_page_free")]
    pub struct FrameFree {
        /// Number of the first frame.
        pub pfn: u64,
        /// Log2 of the number of frames.
        pub order: u32,
    }
}

super::subject! {
    PageFault,
    FrameAlloc,
    FrameFree,
}
