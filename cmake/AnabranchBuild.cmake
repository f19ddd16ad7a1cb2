# How a room, a library and a tool are built. CMakeLists.txt says which exist.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_BUILD_WITH_INSTALL_RPATH OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# Line tables are enough to debug with, and keep the MLIR objects small.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  # All of XXH3 is in a header. Without optimizations the tests would mostly hash files.
  set_source_files_properties(src/package/files/FileHash.cpp PROPERTIES COMPILE_OPTIONS -O2)
endif()
add_compile_options(-Wall -Wextra -Wno-unused-parameter)

find_program(CCACHE ccache)
if(CCACHE)
  # ccache asks for this before it keeps files that a precompiled header serves.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
# The compiler as other programs call it: a cross compiler is told its target.
set(ANABRANCH_COMPILER_COMMAND ${CMAKE_CXX_COMPILER})
if(CMAKE_CXX_COMPILER_TARGET)
  list(APPEND ANABRANCH_COMPILER_COMMAND --target=${CMAKE_CXX_COMPILER_TARGET})
endif()
find_program(LLD ld.lld HINTS /usr/lib/llvm-19/bin)
if(LLD)
  get_filename_component(LLD_DIR ${LLD} DIRECTORY)
  add_link_options(-fuse-ld=lld -B${LLD_DIR})
endif()
# The cache tells one compiler from another by its build id.
add_link_options(-Wl,--build-id)
if(ANABRANCH_SANITIZE)
  add_compile_options(-fsanitize=${ANABRANCH_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ANABRANCH_SANITIZE})
endif()

find_package(Threads REQUIRED)
if(ANABRANCH_TESTS AND CMAKE_CROSSCOMPILING)
  # Debian's package has the library for this machine alone, and its sources.
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
elseif(ANABRANCH_TESTS)
  find_package(GTest REQUIRED)
endif()

# flatc writes the program's C++ form, object API included.
find_program(FLATC flatc REQUIRED)
set(ANABRANCH_GENERATED ${CMAKE_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${ANABRANCH_GENERATED}/package/program_generated.h
  COMMAND ${FLATC} --cpp --cpp-std c++17 --gen-object-api --scoped-enums
          -o ${ANABRANCH_GENERATED}/package
          ${CMAKE_SOURCE_DIR}/src/package/program.fbs
  DEPENDS ${CMAKE_SOURCE_DIR}/src/package/program.fbs)
add_custom_target(anabranch_schema
  DEPENDS ${ANABRANCH_GENERATED}/package/program_generated.h)

if(NOT ANABRANCH_RUNTIME_ONLY)
  find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
  list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
  include(TableGen)
  include(AddLLVM)
  include(AddMLIR)
  # The dialect's tablegen output, in one place, for every room.
  set(LLVM_TARGET_DEFINITIONS ${CMAKE_SOURCE_DIR}/src/ir/AnabranchOps.td)
  set(MLIR_TABLEGEN_ARGS -I${MLIR_INCLUDE_DIRS} -I${CMAKE_SOURCE_DIR}/src/ir)
  function(anabranch_tablegen source output)
    set(file ${ANABRANCH_GENERATED}/ir/${output})
    file(GLOB tds CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ir/*.td)
    add_custom_command(OUTPUT ${file}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${ANABRANCH_GENERATED}/ir
      COMMAND /usr/lib/llvm-19/bin/mlir-tblgen ${ARGN} ${MLIR_TABLEGEN_ARGS}
              ${CMAKE_SOURCE_DIR}/src/ir/${source} -o ${file}
      DEPENDS ${tds})
    set_property(GLOBAL APPEND PROPERTY ANABRANCH_TABLEGEN ${file})
  endfunction()
  anabranch_tablegen(AnabranchOps.td AnabranchOps.h.inc -gen-op-decls)
  anabranch_tablegen(AnabranchOps.td AnabranchOps.cpp.inc -gen-op-defs)
  anabranch_tablegen(AnabranchOps.td AnabranchDialect.h.inc -gen-dialect-decls -dialect=anabranch)
  anabranch_tablegen(AnabranchOps.td AnabranchDialect.cpp.inc -gen-dialect-defs -dialect=anabranch)
  anabranch_tablegen(AnabranchOps.td AnabranchAttrs.h.inc -gen-attrdef-decls -attrdefs-dialect=anabranch)
  anabranch_tablegen(AnabranchOps.td AnabranchAttrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=anabranch)
  anabranch_tablegen(AnabranchOps.td AnabranchTypes.h.inc -gen-typedef-decls -typedefs-dialect=anabranch)
  anabranch_tablegen(AnabranchOps.td AnabranchTypes.cpp.inc -gen-typedef-defs -typedefs-dialect=anabranch)
  get_property(tablegen_files GLOBAL PROPERTY ANABRANCH_TABLEGEN)
  add_custom_target(anabranch_tablegen_all DEPENDS ${tablegen_files})
endif()

set(ANABRANCH_PARSED_HEADERS "" CACHE FILEPATH
  "the precompiled.pch of a build folder with the same flags; empty: this build parses the headers")

# MLIR's headers take most of the time of a file that includes them, so clang parses
# those that most files include once. A file names its includes all the same: clang-tidy
# reads it without. CMake's own precompiled headers hold paths of the checkout, by which
# ccache would tell checkouts apart; this one holds paths of the system alone. It also
# holds the templates that the headers instantiate: half of a file's time without.
function(anabranch_parse_headers)
  set(headers ${ARGN})
  list(TRANSFORM headers PREPEND -include)
  # The flags of every room: clang refuses a header that was parsed with others.
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${LLVM_DEFINITIONS}")
  get_directory_property(options COMPILE_OPTIONS)
  add_custom_target(precompiled DEPENDS precompiled.pch)
  if(ANABRANCH_PARSED_HEADERS)
    add_custom_command(OUTPUT precompiled.pch DEPENDS ${ANABRANCH_PARSED_HEADERS}
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${ANABRANCH_PARSED_HEADERS} precompiled.pch)
    return()
  endif()
  add_custom_command(OUTPUT precompiled.pch
    COMMAND ${ANABRANCH_COMPILER_COMMAND} ${flags} ${options} -std=c++17 -fPIC -fvisibility=hidden
            -fvisibility-inlines-hidden -isystem ${MLIR_INCLUDE_DIRS} ${headers} -xc++-header /dev/null
            -fpch-instantiate-templates -Xclang -fno-pch-timestamp -MD -MF precompiled.d -MT precompiled.pch -o precompiled.pch
    DEPFILE ${CMAKE_BINARY_DIR}/precompiled.d
    COMMENT "Parsing MLIR's headers for all files" VERBATIM)
endfunction()

if(NOT ANABRANCH_RUNTIME_ONLY AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  anabranch_parse_headers(
    mlir/Dialect/Arith/IR/Arith.h
    mlir/Dialect/Func/IR/FuncOps.h
    mlir/Dialect/LLVMIR/LLVMDialect.h
    mlir/Dialect/Linalg/IR/Linalg.h
    mlir/Dialect/Math/IR/Math.h
    mlir/Dialect/Tensor/IR/Tensor.h
    mlir/Dialect/Utils/StaticValueUtils.h
    mlir/Dialect/Vector/IR/VectorOps.h
    mlir/IR/Matchers.h
    mlir/IR/PatternMatch.h
    mlir/Pass/Pass.h
    mlir/Pass/PassManager.h
    mlir/Transforms/DialectConversion.h
    llvm/ADT/MapVector.h
    llvm/ADT/StringMap.h
    llvm/Support/FormatVariadic.h
    llvm/Support/JSON.h)
endif()

include(AnabranchEmulator)

# anabranch_units(<result> <kind> <base> <source>...): what is compiled for the sources
# below a base. The files of a folder are one unit, in parts of at most 12 files: headers
# and their templates take most of a file's time. So the names that a file keeps to itself
# are unique in its folder. A file with flags of its own is compiled alone, and so is one
# with all names of LLVM, of which MLIR has some too. The units lie in a folder named by
# the kind.
function(anabranch_units result kind base)
  set(units)
  set(folders)
  foreach(source IN LISTS ARGN)
    get_source_file_property(flags ${source} COMPILE_OPTIONS)
    file(STRINGS ${source} names REGEX "^using namespace llvm;")
    if(flags OR names)
      list(APPEND units ${source})
      continue()
    endif()
    file(RELATIVE_PATH name ${base} ${source})
    get_filename_component(folder ${name} DIRECTORY)
    list(APPEND folders ${folder})
    list(APPEND files_${folder} ${name})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH files_${folder} files)
    math(EXPR parts "(${files} + 11) / 12")
    math(EXPR size "(${files} + ${parts} - 1) / ${parts}")
    foreach(part RANGE 1 ${parts})
      math(EXPR first "(${part} - 1) * ${size}")
      list(SUBLIST files_${folder} ${first} ${size} part_files)
      list(TRANSFORM part_files REPLACE "(.+)" "#include \"\\1\"\n")
      string(CONCAT text ${part_files})
      set(unit ${ANABRANCH_GENERATED}/units/${kind}/${folder}-${part}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
      list(APPEND units ${unit})
    endforeach()
  endforeach()
  set(${result} ${units} PARENT_SCOPE)
endfunction()

function(anabranch_precompiled target)
  if(TARGET precompiled)
    add_dependencies(${target} precompiled)
    # The headers are compiled for a shared library: so is a test that includes them.
    target_compile_options(${target} PRIVATE -fPIC "SHELL:-include-pch precompiled.pch")
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS precompiled.pch)
  endif()
endfunction()

# anabranch_room(<name> [LLVM] [USES <room>...]): the folder src/<name>. Every
# *Test.cpp in it becomes a part of the gtest binary <name>-test.
function(anabranch_room name)
  cmake_parse_arguments(ROOM "LLVM" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "Test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(Test|Fuzz)\\.cpp$")
  set_property(GLOBAL PROPERTY ANABRANCH_USES_${name} ${ROOM_USES})
  set_property(GLOBAL PROPERTY ANABRANCH_SOURCES_${name} ${sources})
  if(NOT sources)
    return()
  endif()
  anabranch_units(units src ${CMAKE_SOURCE_DIR}/src ${sources})
  add_library(room_${name} OBJECT ${units})
  add_dependencies(room_${name} anabranch_schema)
  target_include_directories(room_${name} PUBLIC
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${ANABRANCH_GENERATED})
  if(ROOM_LLVM)
    add_dependencies(room_${name} anabranch_tablegen_all)
    target_include_directories(room_${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    separate_arguments(llvm_definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
    target_compile_definitions(room_${name} PUBLIC ${llvm_definitions})
    anabranch_precompiled(room_${name})
  endif()
  if(tests AND ANABRANCH_TESTS)
    # Helpers that the tests of this room share, and those of the rooms that it uses.
    set(support)
    foreach(room IN ITEMS ${name} LISTS ROOM_USES)
      file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/support/${room}/*.cpp)
      list(APPEND support ${helpers})
    endforeach()
    anabranch_units(test_units tests ${CMAKE_SOURCE_DIR}/src ${tests})
    add_executable(${name}-test ${test_units} ${support})
    target_include_directories(${name}-test PRIVATE ${CMAKE_SOURCE_DIR}/test)
    if(NOT ROOM_LLVM AND NOT CMAKE_CROSSCOMPILING)
      # Compiling a test takes thrice as long with optimizations, which the room itself
      # has. The parsed header is for optimized code, and an emulator is slow enough.
      target_compile_options(${name}-test PRIVATE -O0)
    endif()
    if(ROOM_LLVM)
      anabranch_precompiled(${name}-test)
      if(TARGET foreign-main)
        add_dependencies(${name}-test foreign-main)
      endif()
    endif()
    set_property(GLOBAL APPEND PROPERTY ANABRANCH_TESTS ${name}-test)
    anabranch_link_rooms(${name}-test ${name})
    target_link_libraries(${name}-test PRIVATE GTest::gtest_main GTest::gtest)
  endif()
  if(ANABRANCH_FUZZ)
    anabranch_fuzz_targets(${name})
  endif()
endfunction()

# anabranch_wing(<room>/<wing> [USES <wing>...]): a folder of a room, and which
# of the room's wings its files may include. test/repo holds them to it.
function(anabranch_wing name)
  if(NOT IS_DIRECTORY ${CMAKE_SOURCE_DIR}/src/${name})
    message(FATAL_ERROR "src/${name} is declared as a wing and does not exist")
  endif()
  if(ANABRANCH_FUZZ)
    anabranch_guide_fuzzer(${name} ${ARGN})
  endif()
endfunction()

# A fuzzer is guided by what it reaches in its wing and in those that its wing uses. The
# other rooms have the flags of the usual build, so ccache has their objects already. The
# flags are those after -fsanitize=fuzzer-no-link, which refuses a parsed header.
function(anabranch_guide_fuzzer name)
  cmake_parse_arguments(WING "" "" "USES" ${ARGN})
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*Fuzz.cpp)
  if(NOT fuzzers)
    return()
  endif()
  set(guide -fsanitize-coverage=inline-8bit-counters,pc-table,indirect-calls,trace-cmp)
  get_filename_component(room ${name} DIRECTORY)
  get_filename_component(own ${name} NAME)
  foreach(wing IN ITEMS ${own} LISTS WING_USES)
    file(GLOB subjects ${ANABRANCH_GENERATED}/units/src/${room}/${wing}-*.cpp
      ${CMAKE_SOURCE_DIR}/src/${room}/${wing}/*.cpp)
    set_source_files_properties(${subjects} PROPERTIES COMPILE_OPTIONS ${guide})
  endforeach()
endfunction()

# Every *Fuzz.cpp of a room is a libFuzzer binary of its own.
function(anabranch_fuzz_targets name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*Fuzz.cpp)
  foreach(source IN LISTS sources)
    get_filename_component(target ${source} NAME_WE)
    add_executable(${target} ${source})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/test)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    anabranch_link_rooms(${target} ${name})
    add_custom_target(run_${target} COMMAND ${target} -max_total_time=10 DEPENDS ${target})
    if(NOT TARGET fuzz)
      add_custom_target(fuzz)
    endif()
    add_dependencies(fuzz run_${target})
  endforeach()
endfunction()

# Links a room with all that it uses, and LLVM if one of them needs it.
function(anabranch_link_rooms target)
  set(todo ${ARGN})
  set(seen)
  while(todo)
    list(POP_FRONT todo room)
    if(room IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${room})
    get_property(uses GLOBAL PROPERTY ANABRANCH_USES_${room})
    list(APPEND todo ${uses})
    if(TARGET room_${room})
      target_link_libraries(${target} PRIVATE room_${room})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:room_${room}>)
    endif()
  endwhile()
  foreach(room IN ITEMS ir import analysis schedule native kernels pipeline)
    if(room IN_LIST seen)
      anabranch_link_llvm(${target})
      break()
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# The shared LLVM and MLIR; lld has archives only.
function(anabranch_link_llvm target)
  target_link_libraries(${target} PRIVATE
    ${LLVM_LIBRARY_DIR}/liblldELF.a ${LLVM_LIBRARY_DIR}/liblldCommon.a
    MLIR LLVM z zstd)
endfunction()

# anabranch_library(<name> [LLVM] ROOMS <room>...): a shared library of rooms.
function(anabranch_library name)
  cmake_parse_arguments(LIB "LLVM" "" "ROOMS" ${ARGN})
  set(objects)
  foreach(room IN LISTS LIB_ROOMS)
    if(TARGET room_${room})
      list(APPEND objects $<TARGET_OBJECTS:room_${room}>)
    endif()
  endforeach()
  if(NOT objects)
    return()
  endif()
  set_property(GLOBAL PROPERTY ANABRANCH_OBJECTS_${name} ${objects})
  add_library(${name} SHARED ${objects})
  if(LIB_LLVM)
    anabranch_link_llvm(${name})
  endif()
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# anabranch_tool(<name> LINKS <library> | ROOMS <room>...): tools/<name>.cpp, a
# client of a library's public API, or a developer's tool made of the rooms.
function(anabranch_tool name)
  cmake_parse_arguments(TOOL "" "LINKS" "ROOMS" ${ARGN})
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/tools/${name}.cpp)
    return()
  endif()
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tools/${name}.cpp)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${ANABRANCH_GENERATED})
  if(TOOL_LINKS)
    target_link_libraries(${name} PRIVATE ${TOOL_LINKS})
  else()
    anabranch_precompiled(${name})
    anabranch_link_rooms(${name} ${TOOL_ROOMS})
  endif()
endfunction()

# The nanobind module anabranch._C, beside the Python sources' build copy.
function(anabranch_python_module)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/bindings/*.cpp)
  if(NOT sources)
    return()
  endif()
  include(AnabranchPython)
  anabranch_units(units bindings ${CMAKE_SOURCE_DIR}/python/bindings ${sources})
  anabranch_add_extension(${units})
endfunction()

# The sources NAME16, NAME32 and NAME64 of a room have one code for each width of vectors,
# and the program chooses when it runs. Sums of products are rounded once where the
# processor can.
function(anabranch_vector_widths room name)
  set(file src/${room}/${name})
  set(base -ffp-contract=fast)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    list(PREPEND base -O3)
  endif()
  set_source_files_properties(${file}16.cpp PROPERTIES COMPILE_OPTIONS "${base}")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${file}32.cpp PROPERTIES COMPILE_OPTIONS "${base};-mavx2;-mfma")
    set_source_files_properties(${file}64.cpp PROPERTIES
      COMPILE_OPTIONS "${base};-mavx512f;-mfma;-mprefer-vector-width=512")
  endif()
endfunction()
