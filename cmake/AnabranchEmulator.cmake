# Tests of kernels for another architecture run in an emulator, where Debian's
# qemu-user-static and cross compiler are installed.
set(ANABRANCH_EMULATED aarch64)
find_program(ANABRANCH_EMULATOR qemu-${ANABRANCH_EMULATED}-static)
find_program(ANABRANCH_CROSS_COMPILER ${ANABRANCH_EMULATED}-linux-gnu-gcc)
set(ANABRANCH_EMULATED_ROOT /usr/${ANABRANCH_EMULATED}-linux-gnu)

if(NOT (ANABRANCH_EMULATOR AND ANABRANCH_CROSS_COMPILER))
  message(STATUS "no emulator of ${ANABRANCH_EMULATED}: its kernels are compiled and not run")
elseif(ANABRANCH_TESTS)
  set(foreign_main ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/foreign-main)
  set(foreign_source ${CMAKE_SOURCE_DIR}/test/support/native/ForeignMain.c)
  add_custom_command(OUTPUT ${foreign_main}
    COMMAND ${ANABRANCH_CROSS_COMPILER} -O1 -Wall -Wextra -Werror -o ${foreign_main} ${foreign_source} -ldl
    DEPENDS ${foreign_source} ${CMAKE_SOURCE_DIR}/test/support/native/ForeignCalls.h
    COMMENT "Building the program that runs foreign kernels" VERBATIM)
  add_custom_target(foreign-main DEPENDS ${foreign_main})
  set_source_files_properties(${CMAKE_SOURCE_DIR}/test/support/native/ForeignProcess.cpp
    PROPERTIES COMPILE_DEFINITIONS "ANABRANCH_EMULATOR=\"${ANABRANCH_EMULATOR}\";\
ANABRANCH_EMULATED=\"${ANABRANCH_EMULATED}\";\
ANABRANCH_EMULATED_ROOT=\"${ANABRANCH_EMULATED_ROOT}\";\
ANABRANCH_FOREIGN_MAIN=\"${foreign_main}\"")
endif()
