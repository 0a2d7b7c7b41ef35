"""Save fitted estimators and load them again, without pickle: a file can never run code.

A file is an uncompressed zip archive: ``.npy`` members for the arrays and ``manifest.json`` for the rest. Classes are
named by the keys of ``REGISTRY``; no other class can be written or read. Every size is checked before memory is taken,
every array against its SHA-256.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import secrets
import struct
import tokenize
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from sksvi.persistence.reader import Decoder
from sksvi.persistence.upgrade import upgraded
from sksvi.persistence.writer import Encoder, class_key

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 32 * 2**20
_MEMBER = re.compile(r"\d{1,9}\.npy")
_ARRAY_KINDS = "biufcUSMm"

# The closed table: key in the file -> class. A new class is one line; a key, once released, keeps its meaning.
REGISTRY: dict[str, str] = {
    "BayesianGLMClassifier": "sksvi.linear_model:BayesianGLMClassifier",
    "BetaProcessFA": "sksvi.decomposition:BetaProcessFA",
    "CorrelatedTopicModel": "sksvi.topics:CorrelatedTopicModel",
    "GMEClassifier": "sksvi.mixed_effects:GMEClassifier",
    "GMERegressor": "sksvi.mixed_effects:GMERegressor",
    "GPClassifier": "sksvi.gaussian_process:GPClassifier",
    "GeneralizedPMF": "sksvi.decomposition:GeneralizedPMF",
    "SparseGPClassifier": "sksvi.gaussian_process:SparseGPClassifier",
    "SparseGPRegressor": "sksvi.gaussian_process:SparseGPRegressor",
    "BayesianGLMRegressor": "sksvi.linear_model:BayesianGLMRegressor",
    "Bernoulli": "sksvi.likelihoods:Bernoulli",
    "Binomial": "sksvi.likelihoods:Binomial",
    "Poisson": "sksvi.likelihoods:Poisson",
    "NegativeBinomial": "sksvi.likelihoods:NegativeBinomial",
    "GaussianLikelihood": "sksvi.likelihoods:Gaussian",
    "StudentT": "sksvi.likelihoods:StudentT",
    "Ordinal": "sksvi.likelihoods:Ordinal",
    "Softmax": "sksvi.likelihoods:Softmax",
    "MCSSVI": "sksvi.algorithms:MCSSVI",
    "HybridMCSSVI": "sksvi.algorithms:HybridMCSSVI",
    "SDSVI": "sksvi.algorithms:SDSVI",
    "CVI": "sksvi.algorithms:CVI",
    "FixedPoint": "sksvi.algorithms:FixedPoint",
    "Constant": "sksvi.schedules:Constant",
    "RobbinsMonro": "sksvi.schedules:RobbinsMonro",
    "AdaGrad": "sksvi.schedules:AdaGrad",
    "Auto": "sksvi.expectations:Auto",
    "Quadrature": "sksvi.expectations:Quadrature",
    "GaussHermite": "sksvi.expectations:GaussHermite",
    "MonteCarlo": "sksvi.expectations:MonteCarlo",
    "Gaussian": "sksvi.families.gaussian.dense:Gaussian",
    "DiagonalGaussian": "sksvi.families.gaussian.dense:DiagonalGaussian",
    "StandardGaussian": "sksvi.families.gaussian.standard:StandardGaussian",
    "ProjectedGaussian": "sksvi.families.gaussian.views:ProjectedGaussian",
    "ClassGaussian": "sksvi.families.gaussian.views:ClassGaussian",
    "Point": "sksvi.families.point:Point",
    "Free": "sksvi.families.point:Point",
    "InUnits": "sksvi.families.gaussian.units:InUnits",
    "Columns": "sksvi.linear_model._columns:Columns",
    "Known": "sksvi.linear_model._columns:Known",
    "Marginal": "sksvi.families.gaussian.views:Marginal",
    "ArrowGaussian": "sksvi.families.gaussian.arrow:ArrowGaussian",
    "ArrowMatrix": "sksvi.families.gaussian.arrow:ArrowMatrix",
    "Dirichlet": "sksvi.families.dirichlet:Dirichlet",
    "Simplex": "sksvi.families.simplex:Simplex",
    "Population": "sksvi.families.population:Population",
    "GaussianPlates": "sksvi.families.gaussian.plates:GaussianPlates",
    "Message": "sksvi.families.base:Message",
    "PlateMessages": "sksvi.families.gaussian.plates:PackedMessage",
    "IdFeatures": "sksvi.decomposition._ids:Features",
    "Rayleigh": "sksvi.families.rayleigh:Rayleigh",
    "Beta": "sksvi.families.dirichlet:Beta",
    "Gamma": "sksvi.families.gamma:Gamma",
    "AdaGradMemory": "sksvi.algorithms.steps:AdaGradMemory",
    "FlatMemory": "sksvi.algorithms.steps:FlatMemory",
    "State": "sksvi.inference.state:State",
    "Sites": "sksvi.inference.memory.of_rows:Sites",
    "NothingSaid": "sksvi.inference.memory.said:NothingSaid",
    "Said": "sksvi.inference.memory.said:Said",
    "Past": "sksvi.inference.past:Past",
    "Sample": "sksvi.inference.past:Sample",
    "Table": "sksvi.models.base:Table",
    "LinearTerms": "sksvi.models.base:LinearTerms",
    "GroupedDesign": "sksvi.models.mixed.levels:GroupedDesign",
    "NoLocals": "sksvi.inference.memory.locals:NoLocals",
    "Locals": "sksvi.inference.memory.locals:Locals",
    "PlateMemory": "sksvi.inference.memory.of_plates:PlateMemory",
    "Progress": "sksvi.inference.progress:Progress",
    "Judging": "sksvi.inference.progress:Judging",
    "Averaging": "sksvi.inference.progress:Averaging",
    "Siding": "sksvi.inference.progress:Siding",
    "Sampling": "sksvi.inference.progress:Sampling",
    "Evaluation": "sksvi.inference.progress:Evaluation",
    "GibbsDraw": "sksvi.models.beta_process.sampler:Draw",
    "Gibbs": "sksvi.algorithms:Gibbs",
    "Posterior": "sksvi.estimators.posterior:Posterior",
    "LogScales": "sksvi.models.mixed.group_scales:LogScales",
    "SwitchedOff": "sksvi.linear_model._switched_off:SwitchedOff",
    "SiteGaussian": "sksvi.families.gaussian.dual:SiteGaussian",
    "ChosenRows": "sksvi.families.gaussian.views:ChosenRows",
    "kernel.ConstantKernel": "sklearn.gaussian_process.kernels:ConstantKernel",
    "kernel.RBF": "sklearn.gaussian_process.kernels:RBF",
    "kernel.Matern": "sklearn.gaussian_process.kernels:Matern",
    "kernel.RationalQuadratic": "sklearn.gaussian_process.kernels:RationalQuadratic",
    "kernel.ExpSineSquared": "sklearn.gaussian_process.kernels:ExpSineSquared",
    "kernel.DotProduct": "sklearn.gaussian_process.kernels:DotProduct",
    "kernel.PairwiseKernel": "sklearn.gaussian_process.kernels:PairwiseKernel",
    "kernel.WhiteKernel": "sklearn.gaussian_process.kernels:WhiteKernel",
    "kernel.Sum": "sklearn.gaussian_process.kernels:Sum",
    "kernel.Product": "sklearn.gaussian_process.kernels:Product",
    "kernel.Exponentiation": "sklearn.gaussian_process.kernels:Exponentiation",
}


class VersionWarning(UserWarning):
    """A file was written by another version of sksvi than the one that reads it."""


def save(estimator: Any, path: str | os.PathLike) -> None:
    """Write an estimator to a file, fitted or not, with the state that ``partial_fit`` and ``warm_start`` go on from.

    The file is written beside ``path`` and renamed when it is complete and on disk, so that a crash leaves either the
    old file or the new one. It holds training rows only where they are the model, those of a full Gaussian process, and
    those that a stream looks at again (``stream_sample``). Callbacks are not saved.

    Parameters
    ----------
    estimator : estimator of sksvi
        Its parameters and attributes are all saved.

    path : str or path-like
        File to write; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator, or something in one of its attributes, is of a class that files cannot hold. No file is
        written then.

    See Also
    --------
    load : The way back.
    """
    if not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator must be an estimator of sksvi; found {type(estimator).__name__}.")
    encoder = Encoder(REGISTRY)
    tree = encoder.encode(estimator, type(estimator).__name__)
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            _write(file, tree, encoder.arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def can_save(estimator: Any) -> bool:
    """Return whether files can hold estimators of this class (their attributes are looked at only by ``save``).

    Parameters
    ----------
    estimator : object
        Any object.

    Returns
    -------
    listed : bool
        Whether its very class, not a base of it, is in ``REGISTRY``.
    """
    return hasattr(estimator, "get_params") and class_key(REGISTRY, type(estimator)) is not None


def load(path: str | os.PathLike) -> Any:
    """Read an estimator that ``save`` wrote; safe for files from anywhere.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator : estimator of sksvi
        Equal to the one that was saved, to the same bits; it continues with ``partial_fit`` or, with
        ``warm_start=True``, ``fit``.

    Raises
    ------
    ValueError
        If the file is not one that ``save`` wrote, is damaged, or asks for anything that such files may not hold.

    OSError
        If the file cannot be opened.

    Warns
    -----
    VersionWarning
        If another version of sksvi wrote the file.

    Examples
    --------
    >>> import os, tempfile, sksvi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.sksvi")
    ...     sksvi.BayesianGLMRegressor(likelihood="poisson").save(path)
    ...     sksvi.load(path)
    BayesianGLMRegressor(likelihood='poisson')
    """
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError(f"{os.fspath(path)!r} is not a file of sksvi: it does not begin as one.")
        try:
            estimator, version = _read(file)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{os.fspath(path)!r} cannot be loaded: {reason}") from error
        except (zipfile.BadZipFile, struct.error, RuntimeError, EOFError, OSError) as error:
            raise ValueError(f"{os.fspath(path)!r} is damaged: {error}") from error
    if version != _version():
        warnings.warn(
            f"{os.fspath(path)!r} was written by sksvi {version} and is read by {_version()}; results may differ.",
            VersionWarning,
            stacklevel=2,
        )
    return estimator


def _version() -> str:
    from sksvi import __version__

    return __version__


class _HashingWriter:
    """Passes bytes on to a member of the archive and hashes them on the way, so that no array is copied whole."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._member.write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _write(file: Any, tree: Any, arrays: dict[str, np.ndarray]) -> None:
    import sklearn

    members = {}
    # Stored, not compressed: what a member declares is then what the file holds, so there is nothing to inflate.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                writer = _HashingWriter(member)
                np.lib.format.write_array(writer, array, allow_pickle=False)
            members[name] = writer.hexdigest()
        manifest = {
            "format": "sksvi",
            "format_version": FORMAT,
            "versions": {"sksvi": _version(), "numpy": np.__version__, "scikit-learn": sklearn.__version__},
            "sha256": members,
            "estimator": tree,
        }
        text = json.dumps(manifest, allow_nan=False, indent=None, separators=(",", ":")).encode("ascii")
        if len(text) > MAX_MANIFEST_BYTES:
            raise ValueError(
                f"The estimator's attributes other than arrays take {len(text)} bytes; "
                f"at most {MAX_MANIFEST_BYTES} can be saved."
            )
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # only there can a folder be opened, and only there does a rename need it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(file: Any) -> tuple[Any, str]:
    file_bytes = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        _check_directory(archive, file_bytes)
        manifest = json.loads(archive.read(MANIFEST), parse_constant=_refuse_constant)
        if not isinstance(manifest, dict) or manifest.get("format") != "sksvi":
            raise ValueError("its manifest is not one of sksvi")
        if manifest["format_version"] != FORMAT:
            raise ValueError(
                f"it has format version {manifest['format_version']!r}, this sksvi ({_version()}) reads {FORMAT}; "
                "load it with the version that wrote it or upgrade sksvi"
            )
        members = manifest["sha256"]
        if set(members) != set(archive.namelist()) - {MANIFEST}:
            raise ValueError("its members and its manifest do not agree")
        decoder = Decoder(
            REGISTRY, lambda name: _read_array(archive, name, members[name]), 64 * 2**20 + 16 * file_bytes
        )
        estimator = decoder.decode(manifest["estimator"])
    if not hasattr(estimator, "get_params"):
        raise ValueError("it holds no estimator")
    upgraded(estimator)
    return estimator, str(manifest["versions"]["sksvi"])


def _check_directory(archive: zipfile.ZipFile, file_bytes: int) -> None:
    """Refuse foreign names, compressed members and sizes that the file cannot hold, before anything is read."""
    names = archive.namelist()
    for name in names:
        if name != MANIFEST and not _MEMBER.fullmatch(name):
            raise ValueError(f"member name {name!r} is not allowed")
    if len(set(names)) != len(names):
        raise ValueError("two members have the same name")
    if MANIFEST not in names:
        raise ValueError(f"{MANIFEST} is missing")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"member {info.filename!r} is compressed; files of sksvi never are")
        if info.filename == MANIFEST and info.file_size > MAX_MANIFEST_BYTES:
            raise ValueError(f"{MANIFEST} declares {info.file_size} bytes; at most {MAX_MANIFEST_BYTES} are allowed")
    declared = sum(info.file_size for info in archive.infolist())
    if declared > file_bytes:
        raise ValueError(f"its members declare {declared} bytes, the file has {file_bytes}")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed in the manifest")


def _read_array(archive: zipfile.ZipFile, name: str, checksum: str) -> np.ndarray:
    data = archive.read(name)
    if hashlib.sha256(data).hexdigest() != checksum:
        raise ValueError(f"checksum of member {name!r} does not match")
    stream = io.BytesIO(data)
    shape, fortran, dtype = _read_header(stream, name)
    if dtype.kind not in _ARRAY_KINDS or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"member {name!r} has dtype {dtype}, which is not allowed")
    if any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
        raise ValueError(f"member {name!r} has shape {shape}, which is not allowed")
    expected, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if expected != found:
        raise ValueError(f"member {name!r} declares {expected} bytes of data and has {found}")
    flat = np.frombuffer(data, dtype=np.uint8, offset=stream.tell())
    # Bytes that are no character or no truth value would be undefined behaviour in whoever reads them.
    if dtype.kind == "b" and flat.size and flat.max() > 1:
        raise ValueError(f"member {name!r} holds bytes that are no truth values")
    if dtype.kind == "U" and flat.size and flat.view(np.dtype("u4").newbyteorder(dtype.byteorder)).max() > 0x10FFFF:
        raise ValueError(f"member {name!r} holds numbers that are no characters")
    array = flat.view(dtype) if flat.size else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="), order="K", copy=True)


def _read_header(stream: io.BytesIO, name: str) -> tuple[tuple, bool, np.dtype]:
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        return headers[np.lib.format.read_magic(stream)](stream)
    # All that the parser of a hostile header was seen to raise; a header is at most 10,000 characters long.
    except (ValueError, KeyError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"member {name!r} has no valid npy header: {error}") from error
