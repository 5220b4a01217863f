//! Checks that the packages compile by themselves, and that `cargo install` gives a working `kymo`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;
use toml::{Table, Value};

/// Files that every package must contain, beyond cargo's own requirements.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];
const FIELDS: [&str; 8] = [
    "name",
    "version",
    "description",
    "license",
    "rust-version",
    "readme",
    "keywords",
    "categories",
];

/// Acceptable warnings of cargo: there is no public address yet, examples are at the repository's
/// top, and the command's tests need another crate's.
const IN_ORDER: [&str; 3] = [
    "manifest has no documentation, homepage or repository",
    "ignoring example `",
    "ignoring test `",
];

/// Packages every crate under crates/, compiles each from its package, and installs `kymo`.
#[derive(Parser)]
struct Arguments {
    /// A folder for the packages, which is replaced
    #[arg(long)]
    packages: PathBuf,
    /// A folder to install to, which is replaced
    #[arg(long)]
    installed: PathBuf,
    /// Install an optimized `kymo`, as users do
    #[arg(long)]
    release: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let Arguments {
        packages,
        installed,
        release,
    } = arguments;
    let crates = crates()?;
    let names: Vec<&str> = crates.iter().map(|(name, _)| name.as_str()).collect();
    println!("To be published: {}", names.join(" "));
    for (name, manifest) in &crates {
        fields(manifest).with_context(|| format!("crates/{name}/Cargo.toml"))?;
        files(name)?;
    }
    if packages.exists() {
        fs::remove_dir_all(&packages).context("the packages made before cannot be removed")?;
    }
    let mut package = cargo(&["package", "--locked", "--allow-dirty", "--no-verify"]);
    package.arg("--target-dir").arg(&packages);
    for name in &names {
        package.args(["-p", name]);
    }
    eprintln!("$ cargo package --locked --allow-dirty --no-verify, of each");
    let output = package.output().context("cargo cannot be started")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("cargo package fails:\n{messages}");
    }
    let warnings: Vec<&str> = messages
        .lines()
        .filter(|line| line.starts_with("warning"))
        .collect();
    if let Some(warning) = warnings
        .iter()
        .find(|warning| !IN_ORDER.iter().any(|known| warning.contains(known)))
    {
        bail!("cargo package warns: {warning}\n{messages}");
    }
    check(&packages, &names)?;
    install(&installed, release)
}

/// Root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Compiles each package from its own content, with the other packages in the place of the
/// registry's. `cargo package` would build all that they depend on anew; here it is what the
/// workspace has.
fn check(packages: &Path, names: &[&str]) -> Result<()> {
    let folder = packages.join("unpacked");
    fs::create_dir_all(&folder)?;
    let (mut members, mut patch) = (String::new(), String::new());
    for name in names {
        let full = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let mut tar = Command::new("tar");
        // With the times of now: by those in a package, what was built of an older one is new.
        tar.arg("-xzmf")
            .arg(packages.join("package").join(format!("{full}.crate")));
        let status = tar.arg("-C").arg(&folder).status();
        if !status.context("tar cannot be started")?.success() {
            bail!("the package {full} cannot be unpacked");
        }
        members.push_str(&format!("{full:?}, "));
        patch.push_str(&format!("{name} = {{ path = {full:?} }}\n"));
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patch}"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for name in names {
        eprintln!("$ cargo check -p {name}, as it is in its package");
        let mut check = cargo(&["check", "-p", name, "--target-dir"]);
        check.arg(root().join("target")).current_dir(&folder);
        if !check.status().context("cargo cannot be started")?.success() {
            bail!("{name} does not compile from its package");
        }
    }
    Ok(())
}

/// Name and manifest of each crate that can be published.
fn crates() -> Result<Vec<(String, Table)>> {
    let folder = root().join("crates");
    let mut folders: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    folders.sort();
    let mut crates = Vec::new();
    for folder in folders {
        let path = folder.join("Cargo.toml");
        let manifest: Table = fs::read_to_string(&path)?
            .parse()
            .with_context(|| path.display().to_string())?;
        let package = table(&manifest, "package")?;
        if package.get("publish").and_then(Value::as_bool) != Some(false) {
            let name = package
                .get("name")
                .and_then(Value::as_str)
                .context("a package has a name")?;
            crates.push((name.to_owned(), manifest));
        }
    }
    Ok(crates)
}

fn table<'a>(of: &'a Table, name: &str) -> Result<&'a Table> {
    of.get(name)
        .and_then(Value::as_table)
        .with_context(|| format!("no [{name}]"))
}

/// Checks that the fields exist, and that every dependency within the repository has a version.
fn fields(manifest: &Table) -> Result<()> {
    let workspace: Table = fs::read_to_string(root().join("Cargo.toml"))?.parse()?;
    let workspace = table(&workspace, "workspace")?;
    let package = table(manifest, "package")?;
    for field in FIELDS {
        let value = match package.get(field) {
            Some(Value::Table(inherited)) if inherited.contains_key("workspace") => {
                table(workspace, "package")?.get(field)
            }
            value => value,
        };
        let is_empty = match value {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            _ => true,
        };
        if is_empty {
            bail!("the field {field} is missing");
        }
    }
    let Some(Value::Table(dependencies)) = manifest.get("dependencies") else {
        return Ok(());
    };
    for (name, dependency) in dependencies {
        let inherited = dependency.get("workspace").and_then(Value::as_bool) == Some(true);
        let dependency = if inherited {
            table(workspace, "dependencies")?.get(name)
        } else {
            Some(dependency)
        };
        if dependency.is_some_and(|dependency| {
            dependency.get("path").is_some() && dependency.get("version").is_none()
        }) {
            bail!("the dependency {name} has a path and no version");
        }
    }
    Ok(())
}

fn files(name: &str) -> Result<()> {
    let output = cargo(&["package", "--list", "--allow-dirty", "-p", name])
        .output()
        .context("cargo cannot be started")?;
    let list = String::from_utf8_lossy(&output.stdout);
    let there: BTreeSet<&str> = list.lines().collect();
    match FILES.into_iter().find(|file| !there.contains(file)) {
        Some(missing) => bail!(
            "the package {name} has no {missing}: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        None => licenses(name),
    }
}

/// The licenses' own texts, in every package: a link does not survive every copy of the tree.
fn licenses(name: &str) -> Result<()> {
    for file in FILES.into_iter().filter(|file| file.starts_with("LICENSE")) {
        if fs::read(root().join(file))? != fs::read(root().join("crates").join(name).join(file))? {
            bail!("crates/{name}/{file} is not a copy of {file}");
        }
    }
    Ok(())
}

/// Installs `kymo` as a user would, but to a separate folder, and runs it.
fn install(place: &Path, release: bool) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place).context("what was installed before cannot be removed")?;
    }
    let mut install = cargo(&["install", "--locked", "--path", "crates/kymo-cli", "--root"]);
    install.arg(place);
    if !release {
        // Dependencies are those of the workspace's builds, which are not optimized either.
        install
            .arg("--debug")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    }
    let status = install.status().context("cargo cannot be started")?;
    if !status.success() {
        bail!("cargo install fails ({status})");
    }
    let kymo = place.join("bin").join("kymo");
    let says = |arguments: &[&str], code: i32| -> Result<String> {
        // It must not need anything from the repository.
        let output = Command::new(&kymo)
            .current_dir(place)
            .args(arguments)
            .output()
            .with_context(|| kymo.display().to_string())?;
        let text = String::from_utf8_lossy(if code == 0 {
            &output.stdout
        } else {
            &output.stderr
        })
        .into_owned();
        if output.status.code() != Some(code) {
            bail!(
                "the installed kymo {arguments:?} ends with {} instead of {code}: {text}",
                output.status
            );
        }
        Ok(text)
    };
    let version = says(&["--version"], 0)?;
    if !version.starts_with(&format!("kymo {}", env!("CARGO_PKG_VERSION"))) {
        bail!("the installed kymo says it is {version}");
    }
    says(&["man", "pages"], 0)?;
    if !place.join("pages/kymo-dump.1").is_file() {
        bail!("the installed kymo writes no manual pages");
    }
    let refusal = says(&["dump", "no-trace"], 3)?;
    if !refusal.contains("no-trace") {
        bail!("the installed kymo does not say what is wrong: {refusal}");
    }
    println!("cargo install gives a kymo that works.");
    Ok(())
}
