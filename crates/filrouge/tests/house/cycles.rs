//! Finds cycles between the files of a crate: a file uses an item of another one, which, directly or through others,
//! uses an item of the first. Imports and paths count as uses; re-exports and `mod` do not. The used file is the one
//! that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

/// A module: its file, and the meaning of its names.
#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// Names imported by `use`, with their paths.
    uses: BTreeMap<String, Vec<String>>,
    /// Paths imported with `*`.
    globs: Vec<Vec<String>>,
    /// Paths that the module's own code uses.
    used_paths: Vec<Vec<String>>,
}

/// Modules by their paths.
type Modules = BTreeMap<Vec<String>, Module>;

/// Returns whether the attributes contain `cfg(test)`, also combined with other conditions.
fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg")
            && matches!(&a.meta, syn::Meta::List(list) if list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|w| w == "test"))
    })
}

/// Collects the paths in code, without those of `use`.
struct Paths<'a>(&'a mut Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|s| s.ident.to_string());
            self.0.push(names.collect());
        }
        visit::visit_path(self, path);
    }
}

/// Adds the names that a `use` imports, with their paths; `*` stands for a glob.
fn add_imported_paths(tree: &UseTree, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => add_imported_paths(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.to_vec()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
        UseTree::Rename(name) => found.push((name.rename.to_string(), with(&name.ident))),
        UseTree::Glob(_) => found.push(("*".to_owned(), before.to_vec())),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|t| add_imported_paths(t, before, found)),
    }
}

/// Returns the attributes and the name of an item.
fn attributes_and_name(item: &Item) -> (&[syn::Attribute], Option<&syn::Ident>) {
    match item {
        Item::Const(i) => (&i.attrs, Some(&i.ident)),
        Item::Enum(i) => (&i.attrs, Some(&i.ident)),
        Item::Fn(i) => (&i.attrs, Some(&i.sig.ident)),
        Item::Impl(i) => (&i.attrs, None),
        Item::Mod(i) => (&i.attrs, None),
        Item::Static(i) => (&i.attrs, Some(&i.ident)),
        Item::Struct(i) => (&i.attrs, Some(&i.ident)),
        Item::Trait(i) => (&i.attrs, Some(&i.ident)),
        Item::Type(i) => (&i.attrs, Some(&i.ident)),
        Item::Union(i) => (&i.attrs, Some(&i.ident)),
        Item::Use(i) => (&i.attrs, None),
        _ => (&[], None),
    }
}

/// Adds a module, and the modules inside it, to `modules`.
fn read(src: &Path, file: &str, at: Vec<String>, items: &[Item], modules: &mut Modules) {
    let mut module = Module {
        file: file.to_owned(),
        ..Module::default()
    };
    for item in items
        .iter()
        .filter(|item| !is_test_only(attributes_and_name(item).0))
    {
        match item {
            Item::Mod(child) => {
                let name = child.ident.to_string();
                module.children.insert(name.clone());
                let inner = [&at[..], std::slice::from_ref(&name)].concat();
                if let Some((_, items)) = &child.content {
                    read(src, file, inner, items, modules);
                } else {
                    let path = inner.join("/");
                    let file = [format!("{path}.rs"), format!("{path}/mod.rs")]
                        .into_iter()
                        .find(|f| src.join(f).exists());
                    if let Some(file) = file {
                        read_file(src, &file, inner, modules);
                    }
                }
            }
            Item::Use(used) => {
                let mut found = Vec::new();
                add_imported_paths(&used.tree, &[], &mut found);
                for (name, path) in found {
                    if name == "*" {
                        module.globs.push(path);
                        continue;
                    }
                    if matches!(used.vis, Visibility::Inherited) {
                        module.used_paths.push(path.clone());
                    }
                    module.uses.insert(name, path);
                }
            }
            item => {
                module
                    .defined
                    .extend(attributes_and_name(item).1.map(ToString::to_string));
                Paths(&mut module.used_paths).visit_item(item);
            }
        }
    }
    modules.insert(at, module);
}

fn read_file(src: &Path, file: &str, at: Vec<String>, modules: &mut Modules) {
    let text = std::fs::read_to_string(src.join(file)).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    if is_test_only(&parsed.attrs) {
        return;
    }
    read(src, file, at, &parsed.items, modules);
}

/// Returns the file that defines the item of a path which the module `at` uses; `None` for an item of another crate,
/// and for a module.
fn file_of<'a>(
    modules: &'a Modules,
    at: &[String],
    path: &[String],
    depth: usize,
) -> Option<&'a str> {
    // Imports may refer to each other.
    if depth > 16 {
        return None;
    }
    let mut current_module = at.to_vec();
    let mut remaining = path;
    let mut in_crate = false;
    while let Some((first, tail)) = remaining.split_first() {
        match first.as_str() {
            "crate" => current_module.clear(),
            "self" => {}
            "super" => {
                current_module.pop();
            }
            _ => break,
        }
        in_crate = true;
        remaining = tail;
    }
    while let Some((first, tail)) = remaining.split_first() {
        let module = modules.get(&current_module)?;
        if module.children.contains(first) {
            current_module.push(first.clone());
            remaining = tail;
            in_crate = true;
            continue;
        }
        if let Some(used) = module.uses.get(first) {
            if used.first() == Some(first) && !in_crate && used.len() == 1 {
                return None;
            }
            let full_path = [used, tail].concat();
            return file_of(modules, &current_module, &full_path, depth + 1);
        }
        if module.defined.contains(first) {
            return Some(&module.file);
        }
        for glob in &module.globs {
            let full_path = [glob, remaining].concat();
            if glob.first().is_some_and(|g| {
                ["crate", "super", "self"].contains(&g.as_str()) || module.children.contains(g)
            }) && let Some(file) = file_of(modules, &current_module, &full_path, depth + 1)
            {
                return Some(file);
            }
        }
        return in_crate.then_some(&module.file);
    }
    None
}

/// Returns each cycle: a set of files that use each other, directly or through others.
fn cycles(src: &Path) -> Vec<BTreeSet<String>> {
    let mut modules = Modules::new();
    for root in ["lib.rs", "main.rs"] {
        if src.join(root).exists() {
            read_file(src, root, Vec::new(), &mut modules);
            break;
        }
    }
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (at, module) in &modules {
        let to = uses.entry(&module.file).or_default();
        for path in &module.used_paths {
            to.extend(file_of(&modules, at, path, 0).filter(|file| *file != module.file));
        }
    }
    // A crate has few files, so it is cheap enough to compute everything that each file reaches.
    let reach: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|from| {
            let mut seen = BTreeSet::new();
            let mut next = vec![*from];
            while let Some(file) = next.pop() {
                for to in uses.get(file).into_iter().flatten() {
                    if seen.insert(*to) {
                        next.push(to);
                    }
                }
            }
            (*from, seen)
        })
        .collect();
    let mut found = BTreeSet::new();
    for (from, seen) in &reach {
        if seen.contains(from) {
            let cycle = seen
                .iter()
                .filter(|to| reach.get(*to).is_some_and(|back| back.contains(from)));
            found.insert(cycle.map(|f| (*f).to_owned()).collect::<BTreeSet<_>>());
        }
    }
    found.into_iter().collect()
}

/// The largest allowed cycle: a file and its submodules, which are read together.
const MAX_CYCLE: usize = 4;

/// The allowed larger cycles: crate, a file of the cycle, its maximum number of files, and the reason.
const ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("postgres", "rows.rs", 11, "to be broken"),
    ("sqlite", "rows.rs", 8, "to be broken"),
    ("transcode", "render.rs", 6, "to be broken"),
    (
        "transcode",
        "stream.rs",
        19,
        "the list of decoders is in the file of the trait that each decoder implements",
    ),
];

#[test]
fn large_cycles_between_files_are_listed() {
    let mut wrong = Vec::new();
    for (name, krate) in crate::shipped() {
        for cycle in cycles(&krate.src) {
            let is_allowed = |(of, file, max, _): &(&str, &str, usize, &str)| {
                *of == name && cycle.len() <= *max && cycle.contains(*file)
            };
            if cycle.len() > MAX_CYCLE && !ALLOWED.iter().any(is_allowed) {
                wrong.push(format!("{name}, {} files: {cycle:?}", cycle.len()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "cycles between files: move the shared items into a separate file, or list the cycle with a reason:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn cycles_are_found_through_reexports_and_globs() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a; mod b; mod c; mod d; pub use c::C;");
    write("a.rs", "use crate::b::B; pub struct A;");
    write("b.rs", "pub struct B(crate::C);");
    write(
        "c.rs",
        "mod part; use super::a; pub struct C; fn f() -> a::A { part::g() }",
    );
    write("c/part.rs", "use super::*; pub fn g() -> A { a::A }");
    write(
        "d.rs",
        "use crate::a::A; #[cfg(test)] mod tests { use crate::c::C; }",
    );
    let files = |names: &[&str]| {
        names
            .iter()
            .map(|n| (*n).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        cycles(folder.path()),
        [files(&["a.rs", "b.rs", "c.rs", "c/part.rs"])]
    );
    write("b.rs", "pub struct B;");
    assert!(cycles(folder.path()).is_empty());
}
