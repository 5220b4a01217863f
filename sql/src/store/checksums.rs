//! Checksums of the files of a store: for each file `NAME` a file `.NAME.crc` beside it, in the
//! form of Hadoop's `ChecksumFileSystem`, so that what reads local files through Hadoop checks
//! them, too: the bytes `crc` and 0, the length of a block, and the CRC-32 of each block of the
//! file, all as 32-bit numbers with the high byte first. The last block may be shorter.
//!
//! The manifest has the CRC-32 of the file with the checksums. The engine reads through
//! [`Checked`], at [`url`], where a [`location`] has this number: it gets whole blocks of the file
//! that the manifest is about, or an error, also where the file is damaged or replaced meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::error::FILE;

const MAGIC: [u8; 4] = *b"crc\0";
/// Bytes of a block: a small file is one, and a range of a large file lies in few.
const BLOCK: u32 = 16 << 10;
/// Most files whose checksums are kept.
const KEPT: usize = 256;

/// The checksums of a file, one for each block.
#[derive(Debug, PartialEq, Eq)]
struct Checksums(Vec<u32>);

impl Checksums {
    fn of(mut file: impl io::Read) -> io::Result<Checksums> {
        let (mut checksums, mut block) = (Vec::new(), Vec::new());
        loop {
            block.clear();
            file.by_ref().take(BLOCK.into()).read_to_end(&mut block)?;
            if block.is_empty() {
                return Ok(Checksums(checksums));
            }
            checksums.push(crc32fast::hash(&block));
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let words = [BLOCK].into_iter().chain(self.0.iter().copied());
        let words = words.flat_map(u32::to_be_bytes);
        MAGIC.into_iter().chain(words).collect()
    }

    /// `None` for what is no such file, or has blocks of another length.
    fn from_bytes(bytes: &[u8]) -> Option<Checksums> {
        let (words, []) = bytes.strip_prefix(&MAGIC)?.as_chunks() else {
            return None;
        };
        let words = words.iter().map(|word| u32::from_be_bytes(*word));
        let mut words = words.collect::<Vec<_>>().into_iter();
        (words.next() == Some(BLOCK)).then(|| Checksums(words.collect()))
    }

    /// Whether these bytes, which begin at a block, are those of the file.
    fn check(&self, begin: u64, bytes: &[u8]) -> bool {
        let first = usize::try_from(begin / u64::from(BLOCK)).unwrap_or(usize::MAX);
        let known = self.0.iter().skip(first).map(Some);
        let known = known.chain(std::iter::repeat(None));
        let mut blocks = bytes.chunks(BLOCK as usize).zip(known);
        blocks.all(|(block, known)| known == Some(&crc32fast::hash(block)))
    }
}

/// The length of the file with the checksums of a file of this length.
fn length(of: u64) -> u64 {
    8 + 4 * of.div_ceil(BLOCK.into())
}

/// The blocks of a file of this length that have the bytes of a range.
fn around(range: &Range<u64>, len: u64) -> Range<u64> {
    let block = u64::from(BLOCK);
    let end = range.end.div_ceil(block).saturating_mul(block);
    range.start - range.start % block..end.min(len)
}

/// The file with the checksums of a file.
fn beside(name: &str) -> String {
    format!(".{name}.crc")
}

/// The file with the checksums of the file at a path.
fn of_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(beside(&name))
}

/// Reads a file that was written, writes its checksums to the disk, and gives their CRC-32.
pub(super) fn write(path: &Path) -> io::Result<u32> {
    let checksums = Checksums::of(File::open(path)?)?.to_bytes();
    let mut file = File::create(of_path(path))?;
    file.write_all(&checksums)?;
    file.sync_all()?;
    Ok(crc32fast::hash(&checksums))
}

/// Whether the file at a path has the checksums with this CRC-32.
pub(super) fn are_there(path: &Path, crc32: u32) -> bool {
    fs::read(of_path(path)).is_ok_and(|bytes| crc32fast::hash(&bytes) == crc32)
}

/// Where the engine finds files of stores.
#[allow(clippy::expect_used, reason = "a constant, which a test parses")]
pub(crate) fn url() -> ObjectStoreUrl {
    ObjectStoreUrl::parse("kymo-store://files").expect("a valid URL")
}

/// What the engine calls a file: the CRC-32 of its checksums, and its absolute path.
pub(super) fn location(path: &Path, crc32: u32) -> Result<Location> {
    let path = Location::from_absolute_path(path)?;
    Ok(Location::parse(format!("{crc32:08x}/{path}"))?)
}

/// The path of a file that has such a location, and the CRC-32 of its checksums.
fn split(location: &Location) -> Result<(Location, u32)> {
    let unknown = || failed(format!("{location} is no file of a store"));
    let (crc32, path) = location.as_ref().split_once('/').ok_or_else(unknown)?;
    let crc32 = u32::from_str_radix(crc32, 16).map_err(|_| unknown())?;
    Ok((Location::parse(path)?, crc32))
}

/// The path of a file that has such a location.
pub(crate) fn path(location: &Location) -> Result<PathBuf> {
    LocalFileSystem::new().path_to_filesystem(&split(location)?.0)
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: "store",
        source: source.into(),
    }
}

/// Files of stores, of which no byte is given that has not been checked. Nothing is written.
#[derive(Debug)]
pub(crate) struct Checked<S> {
    inner: S,
    /// Checksums of files that were read.
    kept: Mutex<HashMap<Location, Arc<Checksums>>>,
}

impl Checked<LocalFileSystem> {
    pub(crate) fn local() -> Checked<LocalFileSystem> {
        Checked {
            inner: LocalFileSystem::new(),
            kept: Mutex::default(),
        }
    }
}

impl<S> fmt::Display for Checked<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files of stores")
    }
}

/// What is wrong with the file at a location.
fn wrong(location: &Location, what: impl fmt::Display) -> Error {
    let name = path(location).map_or(location.to_string(), |path| path.display().to_string());
    failed(format!("{FILE}{name} {what}"))
}

fn unreadable(location: &Location) -> impl Fn(Error) -> Error + use<'_> {
    move |error| wrong(location, format_args!("cannot be read: {error}"))
}

/// `what` ends where the advice goes on.
fn damaged(location: &Location, what: &str) -> Error {
    let advice = "add its trace again with --replace";
    wrong(location, format_args!("{what} {advice}"))
}

/// What is wrong if the checksums are not those that the manifest is about.
const OTHER: &str = "was replaced while it was asked, or its checksums are damaged; ask again, or";

fn read_only() -> Error {
    Error::NotSupported {
        source: "files of stores are only read".into(),
    }
}

impl<S: ObjectStore> Checked<S> {
    /// The checksums of a file of this length, as they are now.
    async fn read(&self, location: &Location, len: u64) -> Result<Checksums> {
        let (path, crc32) = split(location)?;
        // (The parts of a location are encoded, and must not be so twice.)
        let whole: &str = path.as_ref();
        let (folder, name) = whole.rsplit_once('/').unwrap_or(("", whole));
        let beside = Location::parse(format!("{folder}/{}", beside(name)))?;
        let found = match self.inner.get(&beside).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Err(damaged(location, "has no checksums;")),
            Err(error) => return Err(unreadable(location)(error)),
        };
        // The length first, for it may be any.
        let is_fitting = found.meta.size == length(len);
        let bytes = match is_fitting {
            true => found.bytes().await.map_err(unreadable(location))?,
            false => Bytes::new(),
        };
        let is_known = crc32fast::hash(&bytes) == crc32;
        Checksums::from_bytes(&bytes)
            .filter(|_| is_known)
            .ok_or_else(|| damaged(location, OTHER))
    }

    /// The checksums of a file of this length.
    async fn known(&self, location: &Location, len: u64) -> Result<Arc<Checksums>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(location) {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(self.read(location, len).await?);
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(location.clone(), Arc::clone(&known));
        Ok(known)
    }
}

#[async_trait::async_trait]
impl<S: ObjectStore> ObjectStore for Checked<S> {
    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        let (path, _) = split(location)?;
        let meta = self.inner.head(&path).await;
        let mut meta = meta.map_err(unreadable(location))?;
        meta.location = location.clone();
        options.check_preconditions(&meta)?;
        let all = Ok(0..meta.size);
        let range = options.range.as_ref();
        let range = range.map_or(all, |range| range.as_range(meta.size));
        let range = range.map_err(|error| wrong(location, format_args!("is short: {error}")))?;
        let bytes = match options.head {
            true => Vec::new(),
            false => {
                self.get_ranges(location, std::slice::from_ref(&range))
                    .await?
            }
        };
        let stream = futures::stream::iter(bytes.into_iter().map(Ok));
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream.boxed()),
            meta,
            range,
            attributes: Attributes::new(),
        })
    }

    async fn get_ranges(&self, location: &Location, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (path, _) = split(location)?;
        let len = self.inner.head(&path).await;
        let len = len.map_err(unreadable(location))?.size;
        let known = self.known(location, len).await?;
        let is_in = |range: &Range<u64>| range.start < range.end && range.end <= len;
        if !ranges.iter().all(is_in) {
            return Err(damaged(location, "ends before what it is said to have;"));
        }
        let blocks = ranges.iter().map(|range| around(range, len));
        let blocks: Vec<_> = blocks.collect();
        let read = self.inner.get_ranges(&path, &blocks).await;
        let read = read.map_err(unreadable(location))?;
        let mut asked = Vec::with_capacity(ranges.len());
        for ((bytes, blocks), range) in read.into_iter().zip(blocks).zip(ranges) {
            let is_whole = bytes.len() as u64 == blocks.end - blocks.start;
            if !is_whole || !known.check(blocks.start, &bytes) {
                // What replaced it has other checksums.
                self.read(location, len).await?;
                let Range { start, end } = blocks;
                let what = format!("is damaged between byte {start} and {end};");
                return Err(damaged(location, &what));
            }
            let place = |at: u64| (at - blocks.start) as usize;
            asked.push(bytes.slice(place(range.start)..place(range.end)));
        }
        Ok(asked)
    }

    fn list(&self, _: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter([Err(read_only())]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Location>) -> Result<ListResult> {
        Err(read_only())
    }

    async fn put_opts(&self, _: &Location, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Location,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        locations.map(|_| Err(read_only())).boxed()
    }

    async fn copy_opts(&self, _: &Location, _: &Location, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::object_store::memory::InMemory;

    use super::*;

    #[test]
    fn blocks_have_the_checksums_of_the_standard() {
        // CRC-32 has a check value for these digits.
        let small = Checksums::of(&b"123456789"[..]).unwrap();
        assert_eq!(
            small.to_bytes(),
            [99, 114, 99, 0, 0, 0, 0x40, 0, 0xcb, 0xf4, 0x39, 0x26]
        );
        for len in [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let known = Checksums::of(&*bytes).unwrap();
            assert_eq!(known.0.len(), len.div_ceil(BLOCK) as usize);
            assert_eq!(known.to_bytes().len() as u64, length(len.into()));
            assert_eq!(Checksums::from_bytes(&known.to_bytes()).unwrap(), known);
            assert!(known.check(0, &bytes));
            assert!(!known.check(BLOCK.into(), &bytes) || bytes.is_empty());
        }
        let whole = small.to_bytes();
        // Behind the length of a block, there may be no checksums: a file may be empty.
        for len in (0..whole.len()).filter(|len| *len != 8) {
            assert_eq!(Checksums::from_bytes(&whole[..len]), None, "{len}");
        }
        assert_eq!(Checksums::from_bytes(b"crc\0\0\0\x20\0"), None);
    }

    #[test]
    fn locations_are_paths_with_a_number() {
        assert_eq!(url().as_str(), "kymo-store://files/");
        for name in ["/a/b.parquet", "/a b/c%20d#.parquet"] {
            let of = location(Path::new(name), 0xab).unwrap();
            assert_eq!(path(&of).unwrap(), Path::new(name));
            assert_eq!(split(&of).unwrap().1, 0xab);
        }
        assert!(path(&Location::from("a")).is_err());
        assert!(path(&Location::from("tmp/a.parquet")).is_err());
    }

    /// Every range of a file is given as it is, and none that lies in a damaged block.
    #[test]
    fn what_is_damaged_is_not_given() {
        let block = u64::from(BLOCK);
        let len = 3 * block + 100;
        let whole: Vec<u8> = (0..len).map(|at| (at * 7 / 5) as u8).collect();
        let checksums = Checksums::of(&*whole).unwrap().to_bytes();
        let [path, crc] = ["/a/b c%.parquet", "/a/.b c%.parquet.crc"]
            .map(|name| Location::from_absolute_path(name).unwrap());
        let file = location(Path::new("/a/b c%.parquet"), crc32fast::hash(&checksums)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let checked = Checked {
                inner: InMemory::new(),
                kept: Mutex::default(),
            };
            let put = async |at: &Location, bytes: &[u8]| {
                checked.inner.put(at, bytes.to_vec().into()).await.unwrap();
            };
            let said = async |range: Range<u64>| {
                let found = checked.get_ranges(&file, &[0..1, range.clone()]).await;
                match found {
                    Ok(found) => {
                        let range = range.start as usize..range.end as usize;
                        assert_eq!(found[1], whole[range]);
                        String::new()
                    }
                    Err(error) => error.to_string(),
                }
            };
            assert!(said(0..1).await.contains("/a/b c%.parquet cannot be read"));
            put(&path, &whole).await;
            let none = said(0..1).await;
            assert!(none.contains("/a/b c%.parquet has no checksums"), "{none}");
            put(&crc, &checksums[..checksums.len() - 4]).await;
            assert!(said(0..1).await.contains("its checksums are damaged"));
            let mut wrong = checksums.clone();
            wrong[9] ^= 1;
            put(&crc, &wrong).await;
            assert!(said(0..1).await.contains("its checksums are damaged"));
            put(&crc, &checksums).await;
            let ends = [
                0,
                1,
                block - 1,
                block,
                block + 1,
                2 * block,
                3 * block,
                len - 1,
                len,
            ];
            for start in ends {
                for end in ends.into_iter().filter(|end| *end > start) {
                    assert_eq!(said(start..end).await, "", "{start}..{end}");
                }
            }
            assert!(said(0..len + 1).await.contains("ends before"));
            let all = checked.get(&file).await.unwrap().bytes().await.unwrap();
            assert_eq!(all, whole);
            let last =
                GetOptions::new().with_range(Some(datafusion::object_store::GetRange::Suffix(9)));
            let last = checked.get_opts(&file, last).await.unwrap();
            assert_eq!(last.bytes().await.unwrap(), whole[whole.len() - 9..]);
            assert_eq!(checked.head(&file).await.unwrap().size, len);
            // A bit of the third block.
            let mut wrong = whole.clone();
            wrong[2 * BLOCK as usize] ^= 0x10;
            put(&path, &wrong).await;
            for (range, is_given) in [
                (0..2 * block, true),
                (3 * block..len, true),
                (2 * block + 9..2 * block + 10, false),
                (2 * block - 1..2 * block + 1, false),
                (0..len, false),
            ] {
                let said = said(range.clone()).await;
                assert_eq!(said.is_empty(), is_given, "{range:?}: {said}");
                assert!(
                    is_given || said.contains("is damaged between byte"),
                    "{said}"
                );
            }
            assert!(checked.get(&file).await.is_err());
            // Another file in its place, with its own checksums.
            let other = vec![7; whole.len()];
            put(&path, &other).await;
            put(&crc, &Checksums::of(&*other).unwrap().to_bytes()).await;
            assert!(said(0..1).await.contains("was replaced"));
            assert!(checked.put(&file, PutPayload::new()).await.is_err());
        });
    }
}
