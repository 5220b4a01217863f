//! Tests of the built command lines and of the child process.

use std::process::Stdio;

use super::*;

fn launch(command: &str) -> Result<Launch, Error> {
    let words: Vec<OsString> = command
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(OsString::from)
        .collect();
    Launch::command(&words, Path::new("ram"))
}

fn line(launch: &Launch) -> String {
    launch
        .words()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

const OBJECT: &str = "-object memory-backend-file,id=kymo-ram,size=134217728,share=on,mem-path=ram";

#[test]
fn the_backend_joins_the_users_machine_wherever_that_stands() {
    for (given, expected) in [
        (
            "qemu-system-riscv64 -M virt -smp 4",
            "qemu-system-riscv64 -M virt,memory-backend=kymo-ram -smp 4",
        ),
        (
            "qemu-system-riscv64 -smp 4 -machine virt,aclint=on",
            "qemu-system-riscv64 -smp 4 -machine virt,aclint=on,memory-backend=kymo-ram",
        ),
        (
            "/opt/bin/qemu-system-riscv64 --machine type=virt",
            "/opt/bin/qemu-system-riscv64 --machine type=virt,memory-backend=kymo-ram",
        ),
        (
            "qemu-system-x86_64 -nographic",
            "qemu-system-x86_64 -nographic -machine memory-backend=kymo-ram",
        ),
    ] {
        assert_eq!(
            line(&launch(given).unwrap()),
            format!("{expected} {OBJECT}")
        );
    }
}

#[test]
fn the_size_is_the_users() {
    for (option, mib) in [
        ("", 128),
        ("-m 256", 256),
        ("-m 64M", 64),
        ("-m 1G", 1024),
        ("-m 2g,slots=2", 2048),
        ("-m slots=2,size=96M", 96),
        ("--m 131072K", 128),
        ("-m 64 -m 32", 32),
    ] {
        let launch = launch(&format!("qemu-system-riscv64 {option} -M virt")).unwrap();
        assert_eq!(launch.ram().size, mib * MIB, "{option}");
        assert!(line(&launch).contains(&format!("size={}", mib * MIB)));
    }
    for option in ["-m lots", "-m 1.5G", "-m 0", "-m 99999999999G"] {
        let error = launch(&format!("qemu-system-riscv64 -M virt {option}")).unwrap_err();
        assert!(matches!(error, Error::Size { .. }), "{option}: {error}");
    }
}

#[test]
fn free_text_is_not_taken_for_an_option() {
    let words = [
        "qemu-system-riscv64",
        "-append",
        "-m",
        "-M",
        "virt",
        "-name",
        "-M",
    ]
    .map(OsString::from);
    let launch = Launch::command(&words, Path::new("ram")).unwrap();
    assert_eq!(launch.ram().size, DEFAULT_RAM);
    assert_eq!(
        line(&launch),
        format!("qemu-system-riscv64 -append -m -M virt,memory-backend=kymo-ram -name -M {OBJECT}")
    );
}

#[test]
fn ram_begins_where_the_machine_puts_it() {
    for (command, base) in [
        ("qemu-system-riscv64 -M virt", 0x8000_0000),
        ("qemu-system-riscv32 -M virt", 0x8000_0000),
        ("qemu-system-aarch64 -M virt,gic-version=3", 0x4000_0000),
        ("qemu-system-arm -M virt-7.2", 0x4000_0000),
        ("qemu-system-arm -M mps2-an386 -m 16M", 0x2100_0000),
        ("qemu-system-x86_64", 0),
        ("qemu-system-x86_64 -M q35", 0),
    ] {
        assert_eq!(launch(command).unwrap().ram().base, base, "{command}");
    }
    assert!(matches!(
        launch("qemu-system-arm -M lm3s6965evb"),
        Err(Error::Machine { .. })
    ));
    assert!(matches!(
        launch("qemu-system-aarch64"),
        Err(Error::Machine { .. })
    ));
}

#[test]
fn a_shared_file_of_the_users_own_is_used_as_it_is() {
    let given = "qemu-system-riscv64 -M virt,memory-backend=m -object memory-backend-file,id=m,size=64M,mem-path=/x,,y,share=on";
    let launch = launch(given).unwrap();
    assert_eq!(line(&launch), given);
    assert_eq!(
        launch.ram(),
        &Ram {
            file: "/x,y".into(),
            size: 64 * MIB,
            base: 0x8000_0000
        }
    );
    assert!(!launch.makes_ram_file);
}

#[test]
fn a_backend_that_the_host_cannot_see_is_refused() {
    for object in [
        "",
        "-object memory-backend-ram,id=m,size=64M",
        "-object memory-backend-file,id=m,size=64M,mem-path=/x",
        "-object memory-backend-file,id=other,size=64M,mem-path=/x,share=on",
    ] {
        let error = launch(&format!(
            "qemu-system-riscv64 -M virt,memory-backend=m {object}"
        ))
        .unwrap_err();
        assert!(matches!(error, Error::Backend { .. }), "{object}: {error}");
    }
}

#[test]
fn a_path_with_commas_is_one_value() {
    let words = ["qemu-system-riscv64", "-M", "virt"].map(OsString::from);
    let launch = Launch::command(&words, Path::new("a,b")).unwrap();
    assert!(line(&launch).ends_with("mem-path=a,,b"));
    assert_eq!(launch.ram().file, Path::new("a,b"));
}

#[test]
fn what_is_no_qemu_command_is_refused() {
    for command in ["", "make run", "qemu-riscv64 x"] {
        assert!(
            matches!(launch(command), Err(Error::NotQemu { .. })),
            "{command}"
        );
    }
    assert!(matches!(
        launch("qemu-system-riscv64 -M"),
        Err(Error::NoValue { .. })
    ));
}

/// A file that is private to this test run.
fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kymo-qemu-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', class, 1]);
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header
}

#[test]
fn the_kernels_header_chooses_the_machine() {
    let kernel = temporary("riscv", &elf(2, 243));
    let launch =
        Launch::kernel(&kernel, 4, Some("mode=discard events=9"), Path::new("ram")).unwrap();
    let expected = format!(
        "qemu-system-riscv64 -M virt,memory-backend=kymo-ram -nographic -m 128M -no-reboot -smp 4 -kernel {} \
             -append mode=discard events=9 {OBJECT}",
        kernel.display()
    );
    assert_eq!(line(&launch), expected);
    assert_eq!(
        line(&launch.deterministic()),
        format!("{expected} -icount shift=0,sleep=off")
    );
    std::fs::remove_file(kernel).unwrap();

    let kernel = temporary("riscv32", &elf(1, 243));
    let launch = Launch::kernel(&kernel, 4, None, Path::new("ram")).unwrap();
    let expected = format!(
        "qemu-system-riscv32 -M virt,memory-backend=kymo-ram -nographic -bios none -m 128M \
             -no-reboot -smp 4 -kernel {} {OBJECT}",
        kernel.display()
    );
    assert_eq!(line(&launch), expected);
    std::fs::remove_file(kernel).unwrap();

    let kernel = temporary("aarch64", &elf(2, 183));
    let launch = Launch::kernel(&kernel, 2, Some("a b"), Path::new("ram")).unwrap();
    let expected = format!(
        "qemu-system-aarch64 -M virt,gic-version=3,memory-backend=kymo-ram -cpu cortex-a72 -nographic \
             -semihosting-config enable=on,target=native -m 128M -no-reboot -smp 2 -kernel {} \
             -append a b {OBJECT}",
        kernel.display()
    );
    assert_eq!(line(&launch), expected);
    assert_eq!(launch.ram().base, 0x4000_0000);
    assert!(launch.check_port().is_ok());
    std::fs::remove_file(kernel).unwrap();

    let kernel = temporary("x86", &pvh(18));
    let launch = Launch::kernel(&kernel, 2, None, Path::new("ram")).unwrap();
    let expected = format!(
        "qemu-system-x86_64 -M q35,memory-backend=kymo-ram -display none -serial stdio \
             -device isa-debug-exit,iobase=0xf4,iosize=4 -m 128M -no-reboot -smp 2 -kernel {} {OBJECT}",
        kernel.display()
    );
    assert_eq!(line(&launch), expected);
    assert_eq!(launch.ram().base, 0);
    let expected = format!("{expected} -icount shift=0,sleep=off -rtc base=2020-01-01,clock=vm");
    assert_eq!(line(&launch.deterministic()), expected);
    std::fs::remove_file(kernel).unwrap();
}

#[test]
fn kvm_is_used_where_the_host_has_it_for_this_machine() {
    let device = temporary("kvm", &[]);
    let with_kvm = |command, host| launch(command).unwrap().with_kvm_of(host, &device);
    for (command, host, options) in [
        (
            "qemu-system-x86_64 -M q35",
            "x86_64",
            "-accel kvm -cpu host,migratable=no",
        ),
        (
            "qemu-system-aarch64 -M virt",
            "aarch64",
            "-accel kvm -cpu host",
        ),
    ] {
        let launch = with_kvm(command, host).unwrap();
        assert!(line(&launch).ends_with(options), "{}", line(&launch));
    }
    let refused = with_kvm("qemu-system-riscv64 -M virt", "x86_64").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "KVM runs the host's own machine (x86_64), and not that of qemu-system-riscv64. \
         Leave `--accel kvm` out."
    );
    std::fs::remove_file(&device).unwrap();
    let refused = with_kvm("qemu-system-x86_64 -M q35", "x86_64").unwrap_err();
    assert!(
        matches!(&refused, Error::NoKvm { source, .. } if source.kind() == io::ErrorKind::NotFound)
    );
    assert_eq!(refused.advice(), Some("leave --accel kvm out"));
}

/// A RISC-V image of one segment that begins at this address.
fn loaded_at(address: u64) -> Vec<u8> {
    let mut image = elf(2, 243);
    image[6] = 1; // ELF's version
    image[32] = 64; // program headers: where, how long one is, how many
    image[54] = 56;
    image[56] = 1;
    image.extend([1u32, 5].map(u32::to_le_bytes).concat()); // PT_LOAD, readable and executable
    let len = 16u64;
    image.extend(
        [120, address, address, len, len, 4]
            .map(u64::to_le_bytes)
            .concat(),
    );
    image.extend([0; 16]);
    image
}

#[test]
fn a_kernel_that_is_its_own_firmware_gets_no_other() {
    for (address, bios) in [(0x8000_0000, true), (0x8020_0000, false)] {
        let kernel = temporary(&format!("at-{address:x}"), &loaded_at(address));
        let launch = Launch::kernel(&kernel, 4, None, Path::new("ram")).unwrap();
        assert_eq!(line(&launch).contains("-bios none"), bios, "{address:x}");
        assert_eq!(launch.is_own_firmware(), bios, "{address:x}");
        std::fs::remove_file(kernel).unwrap();
    }
}

/// An x86-64 image with one Xen note.
fn pvh(note: u32) -> Vec<u8> {
    let mut image = elf(2, 62);
    image[6] = 1; // ELF's version
    image[32] = 64; // program headers: where, how long one is, how many
    image[54] = 56;
    image[56] = 1;
    let (offset, len) = (120u64, 20u64);
    image.extend([4u32, 4].map(u32::to_le_bytes).concat()); // PT_NOTE, readable
    image.extend([offset, 0, 0, len, len, 4].map(u64::to_le_bytes).concat());
    image.extend(
        [4, 4, note, u32::from_le_bytes(*b"Xen\0"), 0x10_0000]
            .map(u32::to_le_bytes)
            .concat(),
    );
    image
}

#[test]
fn what_is_no_kernel_is_refused_in_one_sentence() {
    for (name, bytes, part) in [
        ("no-note", elf(2, 62), "no PVH entry"),
        ("other-note", pvh(17), "no PVH entry"),
        ("cut-note", pvh(18)[..130].to_vec(), "no PVH entry"),
        ("x32", elf(1, 62), "x86-64 (32 bits)"),
        ("rv128", elf(3, 243), "RISC-V"),
        ("odd", elf(2, 999), "ELF machine 999"),
        ("text", b"hello".to_vec(), "not an ELF file"),
        ("short", elf(2, 243)[..19].to_vec(), "not an ELF file"),
        ("empty", Vec::new(), "not an ELF file"),
    ] {
        let path = temporary(name, &bytes);
        let error = Launch::kernel(&path, 1, None, Path::new("ram"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
        std::fs::remove_file(path).unwrap();
    }
    let error = Launch::kernel(Path::new("no/such/kernel"), 1, None, Path::new("ram")).unwrap_err();
    assert!(matches!(error, Error::Kernel { .. }), "{error}");
}

#[test]
fn a_missing_emulator_is_named_with_its_package() {
    let ram = temporary("ram-missing", &[]);
    let words = ["/nowhere/qemu-system-aarch64", "-M", "virt"].map(OsString::from);
    let launch = Launch::command(&words, &ram).unwrap();
    let error = Qemu::spawn(&launch, Stdio::null()).unwrap_err().to_string();
    assert_eq!(
        error,
        "/nowhere/qemu-system-aarch64 is not installed. On Debian: apt-get install \
             qemu-system-arm"
    );
    std::fs::remove_file(ram).unwrap();
}

/// A script stands in for QEMU.
#[cfg(target_os = "linux")]
#[test]
fn a_child_ends_with_its_value() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("kymo-qemu-{}-child", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("qemu-system-riscv64");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 100\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch::command(
        &[program.into(), "-M".into(), "virt".into()],
        &folder.join("ram"),
    )
    .unwrap();
    let mut qemu = Qemu::spawn(&launch, Stdio::null()).unwrap();
    assert_eq!(
        std::fs::metadata(folder.join("ram")).unwrap().len(),
        DEFAULT_RAM
    );
    assert!(qemu.try_wait().unwrap().is_none());
    let id = qemu.id();
    drop(qemu);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn the_space_for_the_guests_ram_is_reserved() {
    use std::os::unix::fs::MetadataExt as _;
    let path = std::env::temp_dir().join(format!("kymo-capture-{}-ram", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    child::reserve(&file, 1 << 20).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), 1 << 20);
    assert!(metadata.blocks() * 512 >= 1 << 20, "{}", metadata.blocks());
    // 8 TiB, for which the file system has sizes, and the disk no room.
    let error = child::reserve(&file, 1 << 43).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(
        matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::FileTooLarge
        ),
        "{error}"
    );
}

/// A link that leads nowhere cannot be created as a file, but it could be removed.
#[cfg(unix)]
#[test]
fn a_ram_file_that_cannot_be_created_is_left_as_it_is() {
    let link = std::env::temp_dir().join(format!("kymo-ram-link-{}", std::process::id()));
    std::os::unix::fs::symlink("/there/is/no/such/folder", &link).unwrap();
    let words = ["qemu-system-riscv64", "-M", "virt"].map(OsString::from);
    let launch = Launch::command(&words, &link).unwrap();
    let failed = Qemu::spawn(&launch, Stdio::null()).unwrap_err();
    assert!(matches!(failed, Error::RamFile { .. }), "{failed}");
    std::fs::remove_file(&link).expect("the link is still there");
}

#[test]
fn the_kernel_of_a_command_is_that_of_its_last_option() {
    let of = |command: &str| {
        let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        kernel_of(&words)
    };
    let command = "qemu-system-riscv64 -append -kernel --kernel a -M virt -kernel b/c";
    assert_eq!(of(command).unwrap(), Some(PathBuf::from("b/c")));
    assert_eq!(of("qemu-system-riscv64 -M virt -kernel").unwrap(), None);
    assert_eq!(of("qemu-system-riscv64 -append -kernel").unwrap(), None);
    let refused = of("ls -kernel a").unwrap_err();
    assert!(matches!(refused, Error::NotQemu { program } if program == "ls"));
    assert!(matches!(kernel_of(&[]), Err(Error::NotQemu { .. })));
}
