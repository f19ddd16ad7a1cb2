//===- KernelCycles.h - what parts of kernels cost a core -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The figures by which plans of kernels compare their costs, beside the rates
// of a core. A row of CpuModel.h may have its own; the others have these, which
// are of cores with registers of 512 bits. `make bench-kernels` times kernels,
// and `benchmark/tuned.py` their other plans. The figures of weights of few
// bits and of loops are counts of instructions.

#ifndef ANABRANCH_MACHINE_PROCESSOR_KERNELCYCLES_H
#define ANABRANCH_MACHINE_PROCESSOR_KERNELCYCLES_H

namespace anabranch::machine {

/// Cycles, unless a comment names another unit.
struct KernelCycles {
  /// Of any product: a tile beside its products, in which tile registers are
  /// configured and released; and to copy a word of the right operand to a
  /// panel.
  double tile = 220, copiedWord = 0.27;

  /// Of products of parts (FloatParts.h): to copy a part of an element, and an
  /// element whose neighbours are depths; and the share of the tile registers'
  /// rate that is left beside loads, relative to that of vectors.
  double copiedPart = 0.18, transposedPart = 3, shareOfParts = 0.65;
  /// The share of a copy's time that is left if it is made during products.
  double shareOfHiddenCopy = 0.75;
  /// A block of tile registers beside its products, and the share of their peak
  /// that they usually reach.
  double block = 600, shareOfTiles = 0.6;

  /// Of windows, for tile registers: to copy a point of a patch, and a tap of a
  /// window that is copied whole.
  double copiedPoint = 0.4, copiedTap = 14;
  /// The same for vectors: an element of the vectors in which a window is
  /// copied whole; the share of their rate that products reach; and how much
  /// slower they read a patch in only 16 registers.
  double copiedWindow = 0.31, shareOfVectors = 0.6, slowerInFewRegisters = 0.05;

  /// Of attention: to copy an element of a key or a value, and each part of it,
  /// and to split a weight.
  double copiedKey = 0.3, copiedKeyPart = 0.33, splitWeight = 0.5;

  /// Of weights of few bits: to make floats of a vector of integers; to make a
  /// digit of an element of the other operand; and to scale a vector of sums.
  double widenedIntegers = 16, madeDigit = 0.5, scaledSum = 2;

  /// Of loops: a point of a reduction.
  double loopPoint = 1;
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_KERNELCYCLES_H
