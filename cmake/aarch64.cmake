# Cross-builds for 64-bit Arm, with the libraries of Debian's cross compiler:
#   cmake -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
#         -DANABRANCH_RUNTIME_ONLY=ON -DANABRANCH_PYTHON=OFF
# The compiler needs LLVM for 64-bit Arm besides. scripts/wheels/cross.py unpacks Debian's
# packages, and -DANABRANCH_FOREIGN_ROOT names their folder.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
if(ANABRANCH_FOREIGN_ROOT)
  list(PREPEND CMAKE_FIND_ROOT_PATH ${ANABRANCH_FOREIGN_ROOT})
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
  # Debian's Python.h includes a header of its architecture from there.
  set(CMAKE_CXX_FLAGS_INIT "-idirafter ${ANABRANCH_FOREIGN_ROOT}/usr/include")
endif()
# What CMake compiles to learn about the compiler reads this file too.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANABRANCH_FOREIGN_ROOT)
