# Finds the PyTorch of a Python interpreter and makes the target tconv3d_pytorch of its headers and libraries.
#
# Not find_package(Torch): that demands a CUDA toolkit when PyTorch was built for CUDA, and these operators need none.
#
# Candidates, in order: TCONV3D_PYTHON (CMake or environment), the Python that runs the build, the same Python without
# PYTHONPATH (pip hides the user's packages from an isolated build by PYTHONPATH alone), the active environment's.

set(pytorch_query [[
import os, torch
root = os.path.dirname(os.path.abspath(torch.__file__))
print(root, torch.__version__, int(torch.compiled_with_cxx11_abi()), sep=";", end="")
]])

function(tconv3d_python_candidates result)
    if(NOT TCONV3D_PYTHON AND DEFINED ENV{TCONV3D_PYTHON})
        set(TCONV3D_PYTHON $ENV{TCONV3D_PYTHON})
    endif()
    if(TCONV3D_PYTHON)
        set(${result} "${TCONV3D_PYTHON}" PARENT_SCOPE)
        return()
    endif()
    find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
    set(candidates "${Python_EXECUTABLE}" "${Python_EXECUTABLE} -E")
    foreach(prefix IN ITEMS VIRTUAL_ENV CONDA_PREFIX)
        if(DEFINED ENV{${prefix}})
            list(APPEND candidates "$ENV{${prefix}}/bin/python -E")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES candidates)
    set(${result} "${candidates}" PARENT_SCOPE)
endfunction()

function(tconv3d_find_pytorch)
    tconv3d_python_candidates(candidates)
    set(failures "")
    foreach(candidate IN LISTS candidates)
        string(REPLACE " -E" ";-E" command "${candidate}")
        execute_process(COMMAND ${command} -c "${pytorch_query}" OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE status)
        if(status EQUAL 0)
            list(GET answer 0 root)
            list(GET answer 1 version)
            list(GET answer 2 cxx11_abi)
            message(STATUS "PyTorch ${version} of ${candidate}: ${root}")
            set(PYTORCH_ROOT "${root}" PARENT_SCOPE)
            set(PYTORCH_VERSION "${version}" PARENT_SCOPE)
            set(PYTORCH_CXX11_ABI "${cxx11_abi}" PARENT_SCOPE)
            return()
        endif()
        string(REGEX REPLACE "\n+$" "" error "${error}")
        string(REGEX REPLACE ".*\n" "" error "${error}")
        string(APPEND failures "\n  ${candidate}: ${status} ${error}")
    endforeach()
    message(FATAL_ERROR "No PyTorch found. Tried:${failures}\n"
        "Install PyTorch first. If it is installed, name its Python with -DTCONV3D_PYTHON=... or the environment "
        "variable TCONV3D_PYTHON, or install with --no-build-isolation.")
endfunction()

tconv3d_find_pytorch()
if(PYTORCH_VERSION VERSION_LESS 2.0)
    message(FATAL_ERROR "PyTorch ${PYTORCH_VERSION} found in ${PYTORCH_ROOT}; tconv3d needs 2.0 or later")
endif()

# Strings cross between the core and PyTorch, so every object of this build follows PyTorch's choice.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${PYTORCH_CXX11_ABI})

add_library(tconv3d_pytorch INTERFACE)
target_include_directories(tconv3d_pytorch SYSTEM INTERFACE
    ${PYTORCH_ROOT}/include ${PYTORCH_ROOT}/include/torch/csrc/api/include)
foreach(library IN ITEMS torch torch_cpu c10)
    set(file ${PYTORCH_ROOT}/lib/lib${library}${CMAKE_SHARED_LIBRARY_SUFFIX})
    if(NOT EXISTS ${file})
        message(FATAL_ERROR "PyTorch ${PYTORCH_VERSION} lacks ${file}")
    endif()
    target_link_libraries(tconv3d_pytorch INTERFACE ${file})
endforeach()
