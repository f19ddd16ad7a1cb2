"""vLLM's models on CPUs, compiled by Anabranch: a plug-in that vLLM finds by itself.

vLLM calls `platform` and `prepare` in each of its processes. Start with `settings`.

__main__         vLLM's command line
versions         the versions of vLLM that this package is tested with
settings         what Anabranch asks of vLLM's compilation, and the environment's defaults
cpu_platform     vLLM's CPU platform with these settings
cpu_worker       vLLM's CPU worker, which packs weights that were loaded anew
linear           keeps linear layers visible to the compiler
kept_products    programs of products that no graph calls, kept for the next start
rounded_linear   products of rounded weights
rounded_kernels  vLLM's kernels of quantised checkpoints, which call these products
attention        attention and the paged cache as one operator
greedy           takes greedy tokens from logits of 16 bits
regions          has PyTorch trace equal layers once
saved            graphs that vLLM saves and loads
saved_key        the key of these graphs
metrics          Anabranch's counters beside vLLM's metrics
backend          compiles a graph of vLLM, and logs what was compiled and what was not
"""

from __future__ import annotations


def platform() -> str | None:
    """The platform's name, for vLLM's group of platform plug-ins. None: this vLLM is
    not one for CPUs, or not one of the tested versions."""
    from . import metrics, settings, versions

    if not versions.is_for_cpus():
        return None
    versions.say_if_untested()
    if not versions.is_tested():
        return None
    settings.set_environment()
    metrics.publish()
    return "anabranch_vllm.cpu_platform.AnabranchPlatform"


def prepare() -> None:
    """Keeps linear layers visible, for vLLM's group of general plug-ins."""
    from . import linear, versions

    if versions.is_for_cpus() and versions.is_tested():
        linear.keep_visible()
