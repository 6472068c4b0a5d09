//! Reads the routes of the pages in the code of their crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Expr, ExprLit, ExprMethodCall, ItemConst, Lit, LitStr, Local, Pat, UsePath, UseTree};

/// The method and the path of each route.
pub(super) fn routes_in_code() -> BTreeSet<(String, String)> {
    let mut found = Definitions::default();
    for (module, file) in files() {
        found.module = module;
        found.visit_file(&file);
    }
    let mut routes = BTreeSet::new();
    for call in &found.calls {
        let path = found.path(call);
        assert!(!call.methods.is_empty(), "{path}");
        let methods = call.methods.iter().cloned();
        routes.extend(methods.map(|method| (method, path.clone())));
    }
    routes
}

/// The files of the crate, each with the name of its module.
fn files() -> Vec<(String, syn::File)> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../filrouge-pages/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let named = if path.ends_with("mod.rs") {
                &folder
            } else {
                &path
            };
            let text = std::fs::read_to_string(&path).unwrap();
            let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            files.push((stem(named), file));
        }
    }
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// A call of `route`.
struct Call {
    module: String,
    path: Expr,
    methods: Vec<String>,
}

/// Collects what defines routes.
#[derive(Default)]
struct Definitions {
    module: String,
    /// The text of each constant, by module and name.
    texts: BTreeMap<(String, String), String>,
    /// The module and name of each constant that is exported under another name, by that name.
    renamed: BTreeMap<String, (String, String)>,
    /// The text of `format!` in each closure that makes paths, by module and name.
    formats: BTreeMap<(String, String), String>,
    calls: Vec<Call>,
}

impl<'ast> Visit<'ast> for Definitions {
    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        if let Some(text) = text(&item.expr) {
            let name = (self.module.clone(), item.ident.to_string());
            self.texts.insert(name, text);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        syn::visit::visit_local(self, local);
        if let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && let Expr::Closure(closure) = &*init.expr
            && let Expr::Macro(format) = &*closure.body
            && let Ok(text) = format.mac.parse_body::<LitStr>()
        {
            let name = (self.module.clone(), name.ident.to_string());
            self.formats.insert(name, text.value());
        }
    }

    fn visit_use_path(&mut self, path: &'ast UsePath) {
        syn::visit::visit_use_path(self, path);
        let trees: Vec<&UseTree> = match &*path.tree {
            UseTree::Group(group) => group.items.iter().collect(),
            other => vec![other],
        };
        for tree in trees {
            if let UseTree::Rename(renamed) = tree {
                let original = (path.ident.to_string(), renamed.ident.to_string());
                self.renamed.insert(renamed.rename.to_string(), original);
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        syn::visit::visit_expr_method_call(self, call);
        if call.method == "route" {
            self.calls.push(Call {
                module: self.module.clone(),
                path: call.args[0].clone(),
                methods: methods(&call.args[1]),
            });
        }
    }
}

impl Definitions {
    /// The path of a route: a text, that of a constant, or what a closure makes of `name`.
    fn path(&self, call: &Call) -> String {
        let constant = match &call.path {
            Expr::Path(constant) => constant,
            Expr::Reference(made) => {
                return self
                    .made(&call.module, &made.expr)
                    .expect("a closure makes a path");
            }
            other => return text(other).expect("a path is a text or a constant"),
        };
        let segments = constant.path.segments.iter();
        let mut names: Vec<String> = segments.map(|s| s.ident.to_string()).collect();
        let name = names.pop().unwrap();
        let module = names.pop().unwrap_or_else(|| call.module.clone());
        let named = (module, name.clone());
        let original = self.renamed.get(&name).unwrap_or(&named);
        let text = self.texts.get(original);
        text.unwrap_or_else(|| panic!("where is {name}?")).clone()
    }

    fn made(&self, module: &str, call: &Expr) -> Option<String> {
        let Expr::Call(call) = call else { return None };
        let Expr::Path(closure) = &*call.func else {
            return None;
        };
        let name = closure.path.get_ident()?.to_string();
        let format = self.formats.get(&(module.to_owned(), name))?;
        let made = format.replace("{name}", &text(call.args.first()?)?);
        Some(made.replace("{{", "{").replace("}}", "}"))
    }
}

fn text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

/// The methods of `get(…)` or `get(…).post(…)`.
fn methods(handlers: &Expr) -> Vec<String> {
    match handlers {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                let name = path.path.segments.last().unwrap();
                vec![name.ident.to_string().to_uppercase()]
            }
            _ => Vec::new(),
        },
        Expr::MethodCall(call) => {
            let mut all = methods(&call.receiver);
            all.push(call.method.to_string().to_uppercase());
            all
        }
        _ => Vec::new(),
    }
}
