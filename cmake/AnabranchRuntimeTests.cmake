# What the runtime's tests need beside the room itself: kernels and a client in C.
function(anabranch_runtime_tests)
  if(NOT TARGET runtime-test)
    return()
  endif()
  add_library(test_kernels MODULE ${CMAKE_SOURCE_DIR}/src/runtime/TestKernels.c)
  target_include_directories(test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_sources(runtime-test PRIVATE ${CMAKE_SOURCE_DIR}/src/runtime/TestClient.c)
  add_dependencies(runtime-test test_kernels anabranch-run)
  target_compile_definitions(runtime-test PRIVATE
    ANABRANCH_TEST_KERNELS="$<TARGET_FILE:test_kernels>"
    ANABRANCH_RUN_TOOL="$<TARGET_FILE:anabranch-run>")
endfunction()
