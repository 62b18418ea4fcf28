// GPU kernels of `train`: least squares by gradient descent. `kernels.ptx` is this file compiled by NVRTC 11.8 with
// --gpu-architecture=compute_52, so that building the check needs no NVIDIA software.
//
// `samples` has one column per weight: sample s of weight c is samples[c * rows + s].

// errors[s] = samples[s] · weights − targets[s]
extern "C" __global__ void predict(const float *samples, const float *weights, const float *targets, float *errors, int rows, int columns)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < columns; c++) sum += samples[(size_t)c * rows + s] * weights[c];
    errors[s] = sum - targets[s];
}

// One block per weight: weights[c] −= rate · mean(samples[., c] · errors)
extern "C" __global__ void descend(const float *samples, const float *errors, float *weights, float rate, int rows)
{
    __shared__ float sums[256];
    const float *column = samples + (size_t)blockIdx.x * rows;
    float sum = 0.0f;
    for (int s = threadIdx.x; s < rows; s += blockDim.x) sum += column[s] * errors[s];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) weights[blockIdx.x] -= rate * sums[0] / rows;
}

// One block: loss[0] = mean(errors²)
extern "C" __global__ void mean_square(const float *errors, float *loss, int rows)
{
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int s = threadIdx.x; s < rows; s += blockDim.x) sum += errors[s] * errors[s];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) loss[0] = sums[0] / rows;
}
