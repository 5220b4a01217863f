//! The commands of the chapter about stores, run as they stand there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::made::busy;

const CHAPTER: &str = "../docs/src/fleet.md";
const HOSTS: u8 = 8;

/// Copies a made trace, with a UUID of its own: all made traces have the same.
fn copy(from: &Path, to: &Path, number: u8) {
    let metadata = fs::read_to_string(from.join("metadata")).unwrap();
    let (_, rest) = metadata.split_once("uuid = \"").unwrap();
    let text = &rest[..36];
    let digits: Vec<char> = text.chars().filter(|digit| *digit != '-').collect();
    let bytes = digits.chunks(2).map(|pair| {
        let pair: String = pair.iter().collect();
        u8::from_str_radix(&pair, 16).unwrap()
    });
    let uuid: Vec<u8> = bytes.collect();
    let mut own = uuid.clone();
    own[15] = number;
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, mut bytes) = (entry.unwrap().path(), Vec::new());
        let mut rest = &*fs::read(&path).unwrap();
        while let Some((first, after)) = rest.split_first() {
            if rest.starts_with(&uuid) {
                bytes.extend(&own);
                rest = &rest[uuid.len()..];
            } else {
                bytes.push(*first);
                rest = after;
            }
        }
        if path.ends_with("metadata") {
            let own = format!("{}{number:02x}", &text[..34]);
            bytes = metadata.replace(text, &own).into_bytes();
        }
        fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

/// The commands before the section about workers, or in it and after it.
fn script(is_about_workers: bool) -> String {
    let chapter = fs::read_to_string(CHAPTER).unwrap();
    let (before, behind) = chapter.split_once("## Several machines ask").unwrap();
    let part = if is_about_workers { behind } else { before };
    let blocks = part.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

/// A folder `bin` with a command `kymo`, whose `query` is this one; gives the PATH with it.
fn with_kymo(folder: &Path) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let kymo = format!(
        "#!/bin/sh\nshift\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_kymo-query")
    );
    fs::write(bin.join("kymo"), kymo).unwrap();
    fs::set_permissions(bin.join("kymo"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn its_commands_run_as_written() {
    let script = script(false);
    let commands = script
        .lines()
        .filter(|line| line.starts_with("kymo "))
        .count();
    let loops = script
        .lines()
        .filter(|line| line.starts_with("for "))
        .count();
    assert_eq!(commands + loops, 10, "{script}");

    let folder = std::env::temp_dir().join(format!("kymo-sql-chapter-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    for host in 0..HOSTS {
        for (build, number) in [("4.1", host), ("4.2", HOSTS + host)] {
            let name = format!("chapter-{number}");
            let mut made = busy(&name, number.into(), 60);
            let to = folder.join(format!("traces/web-{}/{build}-0", host + 1));
            copy(made.finish(), &to, number);
        }
    }
    let path = with_kymo(&folder);
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", &script])
        .current_dir(&folder)
        .env("PATH", path);
    let output = shell.output().unwrap();
    let (said, failed) = [output.stdout, output.stderr]
        .map(|text| String::from_utf8(text).unwrap())
        .into();
    assert!(output.status.success(), "{said}{failed}");
    assert_eq!(failed, "");
    // The first trace was there when the loop came to it.
    assert_eq!(said.matches(": is there").count(), 1, "{said}");
    assert_eq!(
        said.matches(" rows, ").count(),
        2 * usize::from(HOSTS),
        "{said}"
    );
    assert!(said.contains("within noise"), "{said}");
    assert!(folder.join("web-1.parquet").is_file());
    fs::remove_dir_all(&folder).unwrap();
}

/// At a loopback address of its own, where the ports that the chapter names are free.
#[cfg(feature = "cluster")]
#[test]
fn its_commands_about_workers_run_as_written() {
    use crate::cluster::loopback;
    use crate::store::{Folder, add, labels};

    let folder = Folder::new("chapter-workers");
    let store = Folder(folder.0.join("fleet"));
    let mut made = [
        busy("chapter-workers-1", 1, 60),
        busy("chapter-workers-2", 2, 60),
    ];
    for (made, host) in made.iter_mut().zip(["web-1", "web-2"]) {
        add(&store, made.finish(), &labels(host, "4.1")).unwrap();
    }
    let script = script(true);
    assert_eq!(script.matches("kymo query worker").count(), 2, "{script}");
    assert_eq!(script.matches("--cluster").count(), 2, "{script}");
    let address = loopback().to_string();
    let script = script.replace("127.0.0.1", &address);
    let mut shell = Command::new("sh");
    let script = script.replace("&\n", "& workers=\"$workers $!\"\n");
    let script = format!("workers=; trap 'kill $workers' EXIT\n{script}");
    shell
        .args(["-euc", &script])
        .current_dir(&folder.0)
        .env("PATH", with_kymo(&folder.0));
    let output = shell.output().unwrap();
    let (said, failed): (String, String) = [output.stdout, output.stderr]
        .map(|text| String::from_utf8(text).unwrap())
        .into();
    assert!(output.status.success(), "{said}{failed}");
    assert!(
        said.contains(&format!("a worker answers at http://{address}:17050")),
        "{said}"
    );
    assert!(said.contains("web-2"), "{said}");
}
