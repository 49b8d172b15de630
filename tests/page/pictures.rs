//! The pictures of pages in the documentation. `docs/pictures.sh` runs this and makes the files small.

use std::path::Path;

use base64::Engine;
use serde_json::json;

use crate::page::pages::kind;
use crate::page::tab::{How, open_as};

/// A picture's name, the kind of page, what is chosen, its size, and the colours.
const PICTURES: &[(&str, &str, &str, u32, u32, &str)] = &[
    ("page-verdict", "ranks", "", 1200, 484, "light"),
    ("page-trace", "trace", "#stack=0", 1200, 1400, "light"),
    ("page-ranks", "ranks", "#rank=2", 1200, 1400, "light"),
    ("page-pipeline", "pipeline", "#from=12000000&to=25000000&view=timeline", 1200, 475, "light"),
    ("page-hang", "hang", "", 1200, 1200, "light"),
    ("page-diff", "diff", "", 1200, 1200, "light"),
    ("page-dark", "costs", "#stack=0", 1200, 1200, "dark"),
    ("page-phone", "ranks", "", 360, 780, "light"),
];

/// Writes them as they are into the folder that `NCCL_STACKS_PICTURES` names.
#[test]
#[ignore = "writes the pictures of the documentation: docs/pictures.sh"]
fn pictures() {
    let folder = std::env::var_os("NCCL_STACKS_PICTURES").expect("NCCL_STACKS_PICTURES names a folder");
    for (name, of, fragment, width, height, scheme) in PICTURES {
        let how = How { fragment, width: *width, ..How::default() };
        let tab = open_as(&kind(of).page(), how).expect("a browser");
        tab.set_size(*width, *height);
        tab.set_media("", scheme);
        // A heading that a link leads to has the focus.
        tab.evaluate("document.activeElement.blur()");
        tab.settle();
        let answer = tab.call("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }
}
