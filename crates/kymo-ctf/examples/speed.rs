//! count | read TRACE
use kymo_ctf::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let (what, path) = (args.next().unwrap(), args.next().unwrap());
    let trace = Trace::open(path.as_ref()).unwrap();
    let map = trace.map();
    match &*what {
        "count" => {
            let tally = Tally::of(&map, 1, false);
            println!("{}", tally.events.values().sum::<u64>());
        }
        "read" => {
            let mut reader = map.read();
            let (mut n, mut t) = (0u64, 0u64);
            while let Some(item) = reader.next() {
                if let ItemRef::Event(e) = item {
                    n += 1;
                    t = t.wrapping_mul(31).wrapping_add(e.time().map_or(0, |t| t.0));
                }
            }
            println!("{n} {t}");
        }
        _ => panic!(),
    }
}
