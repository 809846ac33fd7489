// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The snapshot's version moves with its shape. A `weir top` of another build reads the file: what it would
//! not find, or take for something else, has to be told as another version.

use crate::dependencies::rust_files;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::path::Path;

/// Each version of the snapshot, with the hash of its shape.
const SHAPES: &[(u32, u64)] = &[
    (3, 0xe133_40d2_10dd_1e0f),
    (4, 0x5d2d_1434_da5d_8477),
    (5, 0xc041_f782_6246_fb4f),
    (6, 0x8141_9e5c_8a65_437d),
    (7, 0x9b21_2040_223c_36c1),
];

/// Definitions by the name of their type: structs, enums, and what is written by hand of how they are
/// serialized.
type Definitions = BTreeMap<String, String>;

/// Words of these tokens, without visibility, documentation and attributes of others than serde.
fn words(tokens: &[TokenTree], out: &mut String) {
    let mut tokens = tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.peek()
                    && !attribute.to_string().starts_with("[serde")
                {
                    tokens.next();
                }
            }
            TokenTree::Ident(word) if word == "pub" => {
                let is_scope = |next: &&TokenTree| next.to_string().starts_with("(crate)");
                tokens.next_if(is_scope);
            }
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                out.push_str(" { ");
                words(&inside, out);
                out.push_str(" } ");
            }
            other => {
                out.push_str(&other.to_string());
                out.push(' ');
            }
        }
    }
}

/// The type that an item defines, or whose serialization it is.
fn defined(item: &[TokenTree]) -> Option<String> {
    let idents: Vec<String> = item
        .iter()
        .filter_map(|token| match token {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        })
        .collect();
    let after = |word: &str| {
        let at = idents.iter().position(|of| of == word)?;
        idents.get(at + 1).cloned()
    };
    match idents
        .iter()
        .find(|word| ["struct", "enum", "impl", "mod", "fn"].contains(&word.as_str()))
    {
        Some(kind) if kind == "impl" => {
            let is_serde = ["Serialize", "Deserialize"]
                .iter()
                .any(|of| idents.iter().any(|word| word == of));
            is_serde.then(|| after("for")).flatten()
        }
        Some(kind) if kind == "struct" || kind == "enum" => after(kind),
        _ => None,
    }
}

fn add(source: TokenStream, found: &mut Definitions) {
    let mut item = Vec::new();
    for token in source {
        let ends = match &token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(mark) => mark.as_char() == ';',
            _ => false,
        };
        item.push(token);
        if !ends {
            continue;
        }
        if let Some(name) = defined(&item) {
            words(&item, found.entry(name).or_default());
        }
        item.clear();
    }
}

/// The definitions that one of these types has in it, itself first.
fn reached(all: &Definitions, first: &str) -> Definitions {
    let mut found = Definitions::new();
    let mut next = vec![first.to_owned()];
    while let Some(name) = next.pop() {
        let Some(text) = all.get(&name).filter(|_| !found.contains_key(&name)) else {
            continue;
        };
        let is_other = |c: char| !c.is_alphanumeric() && c != '_';
        next.extend(text.split(is_other).map(str::to_owned));
        found.insert(name, text.clone());
    }
    found
}

fn hash(shape: &Definitions) -> u64 {
    let bytes = shape
        .iter()
        .flat_map(|(name, text)| name.bytes().chain(text.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn parsed(sources: &[String]) -> Definitions {
    let mut all = Definitions::new();
    for source in sources {
        add(source.parse().expect("Rust"), &mut all);
    }
    all
}

#[test]
fn the_version_of_the_snapshot_moves_with_its_shape() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/weir-core/src");
    let mut files = Vec::new();
    rust_files(&folder, &mut files);
    files.retain(|file| !file.to_string_lossy().ends_with("tests.rs"));
    files.sort();
    let read = |file: &std::path::PathBuf| std::fs::read_to_string(file).expect("readable");
    let shape = reached(
        &parsed(&files.iter().map(read).collect::<Vec<_>>()),
        "Snapshot",
    );
    for part in ["Decision", "NextMove", "Missing", "PodNames", "Delivery"] {
        assert!(shape.contains_key(part), "{part} is not found");
    }
    let (version, known) = SHAPES.last().expect("one at least");
    let source = read(&folder.join("seam/snapshot.rs"));
    assert!(
        source.contains(&format!("SCHEMA_VERSION: u32 = {version};")),
        "the last version in {} is not SCHEMA_VERSION",
        file!()
    );
    assert!(SHAPES.is_sorted_by(|a, b| a.0 < b.0 && a.1 != b.1));
    let now = hash(&shape);
    assert_eq!(
        now,
        *known,
        "the shape of the snapshot has changed: raise SCHEMA_VERSION, and add it with {now:#018x} to {}",
        file!()
    );
}

#[test]
fn what_is_serialized_is_the_shape_and_comments_are_not() {
    let of = |source: &str| hash(&reached(&parsed(&[source.to_owned()]), "Snapshot"));
    let before = "/// One.\n#[derive(Serialize)] pub struct Snapshot { pub a: Option<Part> } enum Part { B } struct C;";
    for same in [
        "/// Two.\n#[derive(Serialize)] pub struct Snapshot { /// New.\n pub(crate) a: Option<Part> } enum Part { B } struct C;",
        "#[derive(Debug, Serialize)] struct Snapshot { a: Option<Part> } enum Part { B } struct C(u8);",
    ] {
        assert_eq!(of(same), of(before), "{same}");
    }
    for other in [
        "struct Snapshot { a: Option<Part>, b: u8 } enum Part { B } struct C;",
        "struct Snapshot { a: Option<Part> } enum Part { B, D } struct C;",
        "struct Snapshot { #[serde(default)] a: Option<Part> } enum Part { B } struct C;",
        "struct Snapshot { a: Option<Part> } enum Part { B } impl Serialize for Part { fn f() {} } struct C;",
    ] {
        assert_ne!(of(other), of(before), "{other}");
    }
}
