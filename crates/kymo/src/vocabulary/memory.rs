//! Memory: page faults and frames.

use super::Address;

crate::enumeration! {
    /// What was tried at the address.
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
    /// An access that the page tables do not allow, or not yet.
    #[id(10)]
    pub struct PageFault {
        /// What was accessed.
        pub address: Address,
        /// The instruction that did.
        pub ip: Address,
        /// What it tried.
        pub cause: FaultCause,
        /// Whether it ran in user mode.
        pub user: bool,
    }
}

crate::event! {
    /// Frames of physical memory were handed out.
    #[id(11)]
    #[name("mm_page_alloc")]
    pub struct FrameAlloc {
        /// Number of the first frame.
        pub pfn: u64,
        /// There are 2 to the power of this many.
        pub order: u32,
    }
}

crate::event! {
    /// Frames of physical memory were given back.
    #[id(12)]
    #[name("mm_page_free")]
    pub struct FrameFree {
        /// Number of the first frame.
        pub pfn: u64,
        /// There are 2 to the power of this many.
        pub order: u32,
    }
}

super::subject! {
    PageFault,
    FrameAlloc,
    FrameFree,
}
