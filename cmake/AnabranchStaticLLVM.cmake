# LLVM, MLIR and lld as archives, for the library that the wheel carries. The
# linker takes from an archive what is referred to and nothing else, so the list
# may name every archive: only X86 is initialised, so only X86 comes along.
function(anabranch_link_static_llvm target)
  set(folder ${LLVM_LIBRARY_DIR})
  file(GLOB archives ${folder}/libLLVM*.a ${folder}/libMLIR*.a ${folder}/liblldELF.a
       ${folder}/liblldCommon.a)
  # Libraries of tools: they define main or a C API that nobody here calls.
  list(FILTER archives EXCLUDE REGEX "(Test|Main|CAPI|LspServer|Fuzz|ExecutionEngine)[A-Za-z]*\\.a$")
  find_library(Z_ARCHIVE libz.a REQUIRED)
  find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
  target_link_libraries(${target} PRIVATE ${archives} ${Z_ARCHIVE} ${ZSTD_ARCHIVE})
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/NoPolly.cpp)
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE -fno-rtti)
  # Exports are those of our C API alone, whatever visibility Debian's archives
  # were compiled with: two LLVMs in one process must not meet.
  target_link_options(${target} PRIVATE
    -Wl,--gc-sections -Wl,--no-undefined -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
endfunction()
