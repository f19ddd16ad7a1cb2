//===- OptMain.c - anabranch-opt as the compiler's wheel carries it -------===//
// SPDX-License-Identifier: Apache-2.0
//
// The driver is inside the compiler library, so that the wheel has LLVM once.

int anabranch_opt(int argc, char **argv);

int main(int argc, char **argv) { return anabranch_opt(argc, argv); }
