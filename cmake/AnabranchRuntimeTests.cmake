# What the runtime's tests need beside the room itself: kernels and a client in C.
function(anabranch_runtime_tests)
  if(NOT TARGET runtime-test)
    return()
  endif()
  # How a project outside of this one is configured to link what is built here.
  set(outside "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}")
  if(ANABRANCH_SANITIZE)
    set(flag "-fsanitize=${ANABRANCH_SANITIZE}")
    string(APPEND outside " -DCMAKE_C_FLAGS=${flag} -DCMAKE_CXX_FLAGS=${flag}"
      " -DCMAKE_EXE_LINKER_FLAGS='-fsanitize-link-c++-runtime -lstdc++'")
  endif()
  # Programs for another architecture are built by the same toolchain, and run
  # in its emulator.
  set(launcher "")
  if(CMAKE_CROSSCOMPILING)
    string(APPEND outside " -DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE}"
      " -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH")
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " launcher)
    string(APPEND launcher " ")
  endif()
  add_library(test_kernels MODULE ${CMAKE_SOURCE_DIR}/test/support/runtime/TestKernels.c)
  target_include_directories(test_kernels PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_sources(runtime-test PRIVATE ${CMAKE_SOURCE_DIR}/test/support/runtime/TestClient.c)
  add_dependencies(runtime-test test_kernels anabranch-run)
  target_compile_definitions(runtime-test PRIVATE
    ANABRANCH_TEST_KERNELS="$<TARGET_FILE:test_kernels>"
    ANABRANCH_LAUNCHER="${launcher}"
    ANABRANCH_RUN_TOOL="${launcher}$<TARGET_FILE:anabranch-run>"
    ANABRANCH_BINARY_DIR="${CMAKE_BINARY_DIR}"
    ANABRANCH_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    ANABRANCH_OUTSIDE="${outside}")
endfunction()

# Built by name only. machine-peaks: the limits that kernels are held against.
# call-overhead: what a call costs beside its kernels.
function(anabranch_runtime_benchmark)
  add_executable(machine-peaks EXCLUDE_FROM_ALL
    ${CMAKE_SOURCE_DIR}/benchmark/native/MachinePeaks.cpp)
  anabranch_link_rooms(machine-peaks machine)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND OR NOT TARGET test_kernels)
    return()
  endif()
  add_executable(call-overhead EXCLUDE_FROM_ALL
    ${CMAKE_SOURCE_DIR}/benchmark/native/CallOverhead.cpp)
  anabranch_link_rooms(call-overhead runtime)
  target_include_directories(call-overhead PRIVATE ${CMAKE_SOURCE_DIR}/test)
  target_link_libraries(call-overhead PRIVATE benchmark::benchmark)
  add_dependencies(call-overhead test_kernels)
  target_compile_definitions(call-overhead PRIVATE
    ANABRANCH_TEST_KERNELS="$<TARGET_FILE:test_kernels>")
endfunction()
