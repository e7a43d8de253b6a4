#pragma once

#include "cuda/select/family.hpp"

/// The tensor-core families as selection sees them.
namespace tconv3d::cuda::tensorcore {

Answer answer_streamed(const Question& question); ///< wgmma, streamed along D
Answer answer_gathered(const Question& question); ///< wgmma, gathered along D
Answer answer_mma(const Question& question);      ///< mma.sync, streamed along D

} // namespace tconv3d::cuda::tensorcore
