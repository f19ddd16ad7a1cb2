"""Static kernels: compiles a graph for the shapes of its first call.

Start with `static_kernels`.

static_kernels  compiles for exact shapes and fills the build folder
records         records the arguments of each operator as JSON
run_file        writes a script that installs static kernels
run_cache       remembers which script an earlier run has written
ranks           lets the processes of one host wait for each other
"""
