# What the wheels carry: the libraries and the tools once more, of the objects
# that the build has, and a binding for each Python. They are linked against the
# symbols of glibc 2.28 and have libstdc++, LLVM, MLIR and lld inside, so they
# run on any usual Linux. Nothing of it is built before `ninja wheel_parts`.
set(ANABRANCH_WHEEL_PYTHONS "" CACHE STRING
  "bindings for wheels, each TAG=FOLDER OF Python.h; abi3=... is the stable ABI of 3.12")
set(ANABRANCH_PORTABLE ${CMAKE_CURRENT_LIST_DIR}/portable)
set(ANABRANCH_WHEEL_DIR ${CMAKE_BINARY_DIR}/wheel)

# The stubs of glibc, what it lacks, and the start of a program.
function(anabranch_wheel_platform)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(folder ${ANABRANCH_WHEEL_DIR}/stubs)
  set(loader ld-linux-x86-64.so.2)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(loader ld-linux-aarch64.so.1)
  endif()
  set(names libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libc.so.6 ${loader})
  list(TRANSFORM names PREPEND ${folder}/ OUTPUT_VARIABLE stubs)
  string(REPLACE ";" "," names "${names}")
  add_custom_command(OUTPUT ${stubs}
    COMMAND ${Python3_EXECUTABLE} ${ANABRANCH_PORTABLE}/stubs.py
      ${folder} ${names} ${ANABRANCH_COMPILER_COMMAND}
    DEPENDS ${ANABRANCH_PORTABLE}/stubs.py)
  add_custom_target(wheel_stubs DEPENDS ${stubs})
  set_property(GLOBAL PROPERTY ANABRANCH_STUBS ${stubs})
  add_library(wheel_compat OBJECT EXCLUDE_FROM_ALL ${ANABRANCH_PORTABLE}/Compat.c)
  target_compile_options(wheel_compat PRIVATE -Wno-deprecated-declarations)
  set_target_properties(wheel_compat PROPERTIES C_VISIBILITY_PRESET hidden)
  add_library(wheel_start OBJECT EXCLUDE_FROM_ALL ${ANABRANCH_PORTABLE}/Start.c)
  add_custom_target(wheel_parts)
endfunction()

# GCC's and glibc's own files where the compiler finds them, in the order of
# their use. Elsewhere there are no wheels.
function(anabranch_toolchain_files result)
  foreach(name IN ITEMS crtbeginS.o crtendS.o libstdc++.a libgcc_s.so.1 libgcc.a libc_nonshared.a)
    execute_process(COMMAND ${ANABRANCH_COMPILER_COMMAND} -print-file-name=${name}
      OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${file}")
      message(STATUS "no wheels: ${CMAKE_CXX_COMPILER} does not find ${name}")
      set(${result} "" PARENT_SCOPE)
      return()
    endif()
    list(APPEND files ${file})
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

# Links a library or a program with nothing of this machine's but libgcc_s,
# whose interface is older still. The order is the linker's: GCC's end file
# closes a table, so it comes last.
function(anabranch_link_portable target)
  get_property(files GLOBAL PROPERTY ANABRANCH_TOOLCHAIN_FILES)
  list(POP_FRONT files begin end)
  get_property(stubs GLOBAL PROPERTY ANABRANCH_STUBS)
  add_dependencies(${target} wheel_stubs)
  add_dependencies(wheel_parts ${target})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:wheel_compat>)
  target_link_options(${target} PRIVATE -nostdlib ${begin} -Wl,-s
    -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,--allow-shlib-undefined)
  # All stay by name, for a stub does not say which library a function was in.
  list(TRANSFORM stubs PREPEND "-Wl," OUTPUT_VARIABLE inputs)
  target_link_libraries(${target} PRIVATE ${files} -Wl,--no-as-needed ${inputs} ${end})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX
    BUILD_WITH_INSTALL_RPATH ON LINK_DEPENDS "${stubs}")
endfunction()

# anabranch_wheel_library(<name>): the library of that name, from its objects.
function(anabranch_wheel_library name)
  get_property(objects GLOBAL PROPERTY ANABRANCH_OBJECTS_${name})
  string(REPLACE "anabranch_" "" part ${name})
  set(exports ${ANABRANCH_PORTABLE}/${part}.exports)
  add_library(${name}_wheel SHARED EXCLUDE_FROM_ALL ${objects})
  target_link_options(${name}_wheel PRIVATE
    -Wl,--no-undefined -Wl,-Bsymbolic -Wl,--version-script=${exports})
  set_target_properties(${name}_wheel PROPERTIES OUTPUT_NAME ${name}
    EXPORT_NAME ${part} INSTALL_RPATH "$ORIGIN"
    LIBRARY_OUTPUT_DIRECTORY ${ANABRANCH_WHEEL_DIR}/lib)
endfunction()

# LLVM, MLIR and lld as archives. The linker takes from an archive what is
# referred to and nothing else, so the list may name every archive: only
# X86 and AArch64 are initialised, so no other target comes along.
function(anabranch_wheel_compiler)
  anabranch_wheel_library(anabranch_compiler)
  set(target anabranch_compiler_wheel)
  file(GLOB archives ${LLVM_LIBRARY_DIR}/libLLVM*.a ${LLVM_LIBRARY_DIR}/libMLIR*.a)
  # Libraries of tools: they define main or a C API that nobody here calls.
  list(FILTER archives EXCLUDE REGEX "(Test|Main|CAPI|LspServer|Fuzz|ExecutionEngine)[A-Za-z]*\\.a$")
  find_library(Z_ARCHIVE libz.a REQUIRED)
  find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
  target_link_libraries(${target} PRIVATE ${LLVM_LIBRARY_DIR}/liblldELF.a
    ${LLVM_LIBRARY_DIR}/liblldCommon.a ${archives} ${Z_ARCHIVE} ${ZSTD_ARCHIVE})
  target_sources(${target} PRIVATE ${ANABRANCH_PORTABLE}/NoPolly.cpp
    ${CMAKE_SOURCE_DIR}/tools/anabranch-opt.cpp)
  target_compile_definitions(${target} PRIVATE ANABRANCH_OPT_IN_LIBRARY)
  target_include_directories(${target} PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${ANABRANCH_GENERATED})
  target_include_directories(${target} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE -fno-rtti)
  anabranch_link_portable(${target})
  anabranch_wheel_tool(anabranch-opt ${target} ${ANABRANCH_PORTABLE}/OptMain.c)
endfunction()

# anabranch_wheel_tool(<name> <library> <source>...): beside the libraries in a
# package's folder, or in lib/ of the development files.
function(anabranch_wheel_tool name library)
  add_executable(${name}_wheel EXCLUDE_FROM_ALL ${ARGN} $<TARGET_OBJECTS:wheel_start>)
  target_link_options(${name}_wheel PRIVATE -pie)
  target_link_libraries(${name}_wheel PRIVATE ${library})
  anabranch_link_portable(${name}_wheel)
  set_target_properties(${name}_wheel PROPERTIES OUTPUT_NAME ${name}
    INSTALL_RPATH "$ORIGIN/..:$ORIGIN/../lib"
    RUNTIME_OUTPUT_DIRECTORY ${ANABRANCH_WHEEL_DIR}/bin)
endfunction()

# anabranch_wheel_binding(<tag> <folder of Python.h>): the extension for one
# Python, with nanobind compiled in.
function(anabranch_wheel_binding tag include)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/bindings/*.cpp)
  set(target binding_${tag})
  anabranch_units(units bindings ${CMAKE_SOURCE_DIR}/python/bindings ${sources})
  add_library(${target} MODULE EXCLUDE_FROM_ALL ${units} ${nanobind_ROOT}/../src/nb_combined.cpp)
  target_include_directories(${target} SYSTEM PRIVATE ${include}
    ${nanobind_ROOT}/../include ${nanobind_ROOT}/../ext/robin_map/include)
  target_include_directories(${target} PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/python/bindings)
  if(CMAKE_CROSSCOMPILING)
    # Debian's Python.h includes a header of its architecture from there.
    target_compile_options(${target} PRIVATE -idirafter ${include}/..)
  endif()
  target_compile_definitions(${target} PRIVATE NB_COMPACT_ASSERTIONS)
  target_compile_options(${target} PRIVATE -fno-strict-aliasing
    -ffunction-sections -fdata-sections -fno-stack-protector)
  set(suffix .${tag}.so)
  if(tag STREQUAL "abi3")
    target_compile_definitions(${target} PRIVATE Py_LIMITED_API=0x030C0000)
  else()
    string(REPLACE "cp" ".cpython-" suffix "${tag}-${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.so")
  endif()
  target_link_libraries(${target} PRIVATE anabranch_runtime_wheel)
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${ANABRANCH_PORTABLE}/binding.exports)
  anabranch_link_portable(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME _C PREFIX "" SUFFIX ${suffix}
    INSTALL_RPATH "$ORIGIN" LIBRARY_OUTPUT_DIRECTORY ${ANABRANCH_WHEEL_DIR}/${tag})
endfunction()

# `cmake --install --component wheel_runtime`: what a C++ program needs, found
# again by find_package(Anabranch), under one folder.
function(anabranch_wheel_install_runtime)
  install(TARGETS anabranch_runtime_wheel EXPORT AnabranchWheelTargets
    COMPONENT wheel_runtime EXCLUDE_FROM_ALL
    LIBRARY DESTINATION lib INCLUDES DESTINATION include)
  install(TARGETS anabranch-run_wheel COMPONENT wheel_runtime
    RUNTIME DESTINATION bin EXCLUDE_FROM_ALL)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/anabranch COMPONENT wheel_runtime
    DESTINATION include EXCLUDE_FROM_ALL PATTERN Compiler.h EXCLUDE)
  install(EXPORT AnabranchWheelTargets NAMESPACE anabranch:: COMPONENT wheel_runtime
    FILE AnabranchConfig.cmake DESTINATION lib/cmake/Anabranch EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_BINARY_DIR}/AnabranchConfigVersion.cmake COMPONENT wheel_runtime
    DESTINATION lib/cmake/Anabranch EXCLUDE_FROM_ALL)
endfunction()

# `cmake --install --component wheel_compiler`: what stands in the package's own
# folder, less the binding.
function(anabranch_wheel_install_compiler)
  install(TARGETS anabranch_runtime_wheel anabranch_compiler_wheel
    COMPONENT wheel_compiler LIBRARY DESTINATION . EXCLUDE_FROM_ALL)
  install(TARGETS anabranch-run_wheel anabranch-opt_wheel
    COMPONENT wheel_compiler RUNTIME DESTINATION bin EXCLUDE_FROM_ALL)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/anabranch COMPONENT wheel_compiler
    DESTINATION include EXCLUDE_FROM_ALL)
endfunction()

function(anabranch_wheel)
  anabranch_toolchain_files(files)
  if(ANABRANCH_SANITIZE OR ANABRANCH_FUZZ OR NOT files)
    return()
  endif()
  set_property(GLOBAL PROPERTY ANABRANCH_TOOLCHAIN_FILES ${files})
  anabranch_wheel_platform()
  include(AnabranchPython)
  anabranch_wheel_library(anabranch_runtime)
  anabranch_link_portable(anabranch_runtime_wheel)
  target_include_directories(anabranch_runtime_wheel PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  anabranch_wheel_tool(anabranch-run anabranch_runtime_wheel $<TARGET_OBJECTS:anabranch-run>)
  anabranch_wheel_install_runtime()
  if(TARGET anabranch_compiler)
    anabranch_wheel_compiler()
    anabranch_wheel_install_compiler()
  endif()
  foreach(pair IN LISTS ANABRANCH_WHEEL_PYTHONS)
    string(REGEX MATCH "^([^=]+)=(.+)$" found "${pair}")
    anabranch_wheel_binding(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    install(TARGETS binding_${CMAKE_MATCH_1} COMPONENT wheel_${CMAKE_MATCH_1}
      LIBRARY DESTINATION . EXCLUDE_FROM_ALL)
  endforeach()
endfunction()
