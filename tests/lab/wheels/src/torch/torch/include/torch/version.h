#pragma once
#define TORCH_VERSION "@VERSION@"
