//! Collectives that hooks launch: DDP's buckets by the parameters in them, FSDP's and ZeRO's by the module. The answers for the traces of `testdata/`
//! were worked out by hand and are in `testdata/README.md`; those for real traces follow from the models' definitions.

use crate::support::program::{has, run, run_json, stdout, testdata};
use crate::support::{real_traces, shared};

/// Count and headline of each stack, sorted.
fn headlines(trace: &str, more: &[&str]) -> Vec<(u64, String)> {
    let output = run_json(&[&[trace][..], more].concat());
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let one = |stack: &serde_json::Value| {
        (stack["count"].as_u64().unwrap(), stack["headline"].as_str().unwrap_or_default().to_owned())
    };
    let mut all: Vec<(u64, String)> = answer["stacks"].as_array().unwrap().iter().map(one).collect();
    all.sort();
    all
}

fn all_are(trace: &str, want: &[(u64, &str)]) {
    let want: Vec<(u64, String)> = want.iter().map(|(count, headline)| (*count, (*headline).to_owned())).collect();
    assert_eq!(headlines(trace, &[]), want, "{trace}");
}

#[test]
fn a_bucket_is_of_the_parameters_since_the_last() {
    let trace = testdata("gradients_ddp.json");
    all_are(
        &trace,
        &[
            (1, "gradients of Block_1.Linear_1 … Linear_2 (Net_0), bucket 1 of 2, 4.00 MB"),
            (1, "gradients of Embedding_0 (Net_0), bucket 1 of 1, 256 B"),
            (1, "gradients of Linear_0 (Block_0), bucket 2 of 2, 10.00 kB"),
            (1, "hooks.py(40): sum_norms"),
        ],
    );
    // Without the forward pass all that hooks of DDP launch is one stack.
    let accumulate = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    let off = headlines(&trace, &["--forward-stacks", "off"]);
    let of: Vec<(u64, &str)> = off.iter().map(|(count, headline)| (*count, headline.as_str())).collect();
    assert_eq!(of, [(1, "hooks.py(40): sum_norms"), (3, accumulate)]);
}

#[test]
fn without_modules_operators_are_numbered() {
    all_are(
        &testdata("gradients_ddp_no_stacks.json"),
        &[
            (1, "gradients of aten::embedding #1 (## tower ##), bucket 1 of 1, 256 B"),
            (1, "gradients of aten::linear #1 (## tower ##), bucket 2 of 2, 10.00 kB"),
            (1, "gradients of aten::linear #2 … aten::linear #3 (## tower ##), bucket 1 of 2, 4.00 MB"),
        ],
    );
}

#[test]
fn sharded_parameters_are_of_a_module() {
    all_are(
        &testdata("gradients_fsdp2.json"),
        &[
            (1, "FSDP::all_gather (blocks.*)"),
            (1, "FSDP::all_gather (blocks.*)"),
            (1, "net.py(30): forward"),
            (2, "FSDP::all_gather (blocks.*)"),
            (2, "FSDP::post_backward_reduce (blocks.*)"),
        ],
    );
    let exact = headlines(&testdata("gradients_fsdp2.json"), &["--exact-names"]);
    let of_first = exact.iter().filter(|(_, headline)| headline == "FSDP::all_gather (blocks.0)").count();
    assert_eq!(of_first, 2, "in the forward pass, and fetched early in the backward pass: {exact:?}");
    all_are(
        &testdata("gradients_fsdp1.json"),
        &[
            (2, "nn.Module: FullyShardedDataParallel_"),
            (2, "nn.Module: FullyShardedDataParallel_"),
            (2, "nn.Module: Linear_"),
        ],
    );
    all_are(
        &testdata("gradients_zero3.json"),
        &[
            (1, "gradients of Linear_1 … Linear_2 (Net_0), 8.00 kB"),
            (3, "nn.Module: Linear_"),
            (3, "nn.Module: Linear_"),
        ],
    );
}

/// The headline is one field: what one form has of it, all have.
#[test]
fn all_forms_name_the_bucket() {
    let trace = testdata("gradients_ddp.json");
    let bucket = "gradients of Block_1.Linear_1 … Linear_2 (Net_0), bucket 1 of 2, 4.00 MB";
    for form in ["text", "table", "json", "csv", "folded", "speedscope", "svg", "html"] {
        let text = stdout(&run(&[&trace, "--format", form, "--quiet"]));
        assert!(text.contains(bucket), "{form}: {text}");
    }
    let grouped = stdout(&run(&[&trace, "--group-by", "forward", "--quiet"]));
    assert!(grouped.contains(bucket) && !grouped.contains("(not backward)"), "{grouped}");
    has(&grouped, "1   50.0 µs   25.0 %   50.0 µs  50.0 µs  (hook of a gradient)");
    let both = stdout(&run(&["diff", &trace, &testdata("gradients_ddp_no_stacks.json"), "--quiet"]));
    has(&both, "gradients of Block_1.Linear_1");
}

/// ResNet-50 has 53 convolutions, each followed by a batch norm, and one linear layer: the convolutions #44 to #53 are those of `layer4`, of which the
/// last two blocks have #48 to #53; `fc` has 2,049,000 parameters (8.196 MB), and `layer4.2` with the last two convolutions and batch norms of
/// `layer4.1` 4,462,592 + 3,412,992 (31.502 MB). ResNet-18 in bf16: `fc`, `layer4.1.bn2` and `layer4.1.conv2` have 513,000 + 1,024 + 2,359,296 parameters
/// (5.747 MB), of 11,689,512. Each real bucket's size is so that of the parameters that its headline names.
#[test]
fn buckets_of_real_traces() {
    let Some(shared) = shared() else { return };
    for (name, want) in [
        (
            "TraceLens__mi300_ddp_resnet_rank0",
            &[
                (3, "gradients of BasicBlock_7.Conv2d_19 … Linear_0 (ResNet_0), bucket 1 of 2, 5.75 MB"),
                (3, "gradients of Conv2d_0 … BasicBlock_7.BatchNorm2d_18 (ResNet_0), bucket 2 of 2, 17.63 MB"),
            ][..],
        ),
        (
            "HTA__nccl_data_a100",
            &[
                (3, "gradients of aten::linear #1 (## forward ##), bucket 1 of 5, 8.20 MB"),
                (3, "gradients of aten::conv2d #49 … aten::batch_norm #53 (## forward ##), bucket 2 of 5, 31.50 MB"),
            ],
        ),
    ] {
        let traces = real_traces(&shared);
        let Some((_, path)) = traces.iter().find(|(file, _)| file.contains(name)) else {
            eprintln!("{name} is not there: not tested");
            continue;
        };
        let found = headlines(&path.to_string_lossy(), &[]);
        for (count, headline) in want {
            assert!(found.contains(&(*count, (*headline).to_owned())), "{name}: {headline} in {found:#?}");
        }
        assert!(!found.iter().any(|(_, headline)| headline.ends_with("AccumulateGrad")), "{found:#?}");
    }
}
