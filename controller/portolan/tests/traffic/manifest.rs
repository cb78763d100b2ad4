//! The same manifests in other forms.

/// The same objects, written differently: annotations, comments, quotes, another order of keys.
pub fn rewritten(manifest: &str, serial: usize) -> String {
    let annotated = format!("metadata:\n  annotations:\n    example.org/touched: \"{serial}\"\n    # a comment\n");
    let text = manifest.replace("metadata:\n", &annotated).replace("\n  - name: web\n", "\n  - {\"name\": 'web'}\n");
    match serial % 3 {
        0 => text,
        1 => format!("# version {serial}\n---\n{text}\n---\n# nothing here\n"),
        _ => text.replace('\n', "\r\n"),
    }
}
