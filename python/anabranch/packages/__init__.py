"""Makes an executable of a description, or finds one on disk.

Start with `package`; docs/design/cache.md describes the entries of the cache.

package         compiles a description to a package and loads it
function        makes of an executable the function that AOTAutograd calls
cache           the compile cache: keys, entries and limits
handed_over     packages in the bytes of torch.compiler.save_cache_artifacts
kernel_library  packages for exact shapes, which processes and models share
frozen          follows frozen weights that their owner changes
refill          packages for new values of frozen weights
refreshing      anabranch.refresh
verifying       anabranch.verify_weights
optimizers      makes steps of fused optimizers visible to `frozen`
donors          finds an executable whose packed weights another one can use
tuning          finds and keeps blockings of products
tuner           times blockings of products on this machine
"""
