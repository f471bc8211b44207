"""The records that TensorBoard reads, made of tensors, arrays and numbers."""

from __future__ import annotations

import io
import json
import math
import wave
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import (
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

import tapegrad as tg

# What a tensor's numbers are called in a record, and the field that holds them.
TYPES = {
    "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"),
    "float16": ("DT_HALF", "half_val"),
    "bfloat16": ("DT_BFLOAT16", "half_val"),
    "uint8": ("DT_UINT8", "uint32_val"),
    "int8": ("DT_INT8", "int_val"),
    "int16": ("DT_INT16", "int_val"),
    "int32": ("DT_INT32", "int_val"),
    "int64": ("DT_INT64", "int64_val"),
    "bool": ("DT_BOOL", "bool_val"),
    "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
}


def make_np(x: Any) -> Any:
    """A tensor, an array or a number as an array."""
    if isinstance(x, list):
        return np.array(x)
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, tg.Tensor):
        x = x.detach().cpu().resolve_conj().resolve_neg()
        return (x.to(tg.float16) if x.dtype == tg.bfloat16 else x).numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def shape_of(sizes: Any) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(size)) for size in sizes])


def plugin(name: str, content: bytes = b"") -> Any:
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content)
    )


def one(**value: Any) -> Any:
    return Summary(value=[Summary.Value(**value)])


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """One number."""
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions).             Was given size: "
            f"{array.size} and {array.ndim} dimensions."
        )
    number = float(array)
    if not new_style:
        return one(tag=name, simple_value=number)
    kind = "DT_DOUBLE" if double_precision else "DT_FLOAT"
    field = "double_val" if double_precision else "float_val"
    proto = TensorProto(dtype=kind, **{field: [number]})
    return one(tag=name, tensor=proto, metadata=plugin("scalars"))


def tensor_proto(tag: str, tensor: Any) -> Any:
    """All numbers of a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    kind, field = TYPES[dtype]
    flat = tensor.detach().cpu().reshape(-1)
    if dtype in ("float16", "bfloat16"):  # as PyTorch writes them: the bits of float32
        numbers = flat.float().numpy().view(np.int32).tolist()
    elif flat.is_complex():
        numbers = tg.view_as_real(flat.resolve_conj()).reshape(-1).tolist()
    else:
        numbers = flat.tolist()
    proto = TensorProto(dtype=kind, tensor_shape=shape_of(tensor.shape), **{field: numbers})
    return one(tag=tag, tensor=proto, metadata=plugin("tensor"))


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """A histogram that was counted elsewhere."""
    histo = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
        bucket_limit=list(bucket_limits), bucket=list(bucket_counts),
    )  # fmt: skip
    return one(tag=name, histo=histo)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How often values fall between bounds."""
    made = make_histogram(make_np(values).astype(float), bins, max_bins)
    return one(tag=name, histo=made)


def make_histogram(values: Any, bins: Any, max_bins: int | None = None) -> Any:
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        joined = len(counts) // max_bins  # so many neighbours become one
        counts = np.pad(counts, (0, -len(counts) % joined)).reshape(-1, joined).sum(axis=1)
        last = limits[-1]
        limits = limits[:-1:joined]
        limits = np.append(limits, last)
    # Empty buckets at both ends are left out, but for one in front; counts[i] ends at
    # limits[i + 1].
    filled = np.flatnonzero(counts)
    if not len(filled):
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = filled[0], filled[-1] + 1
    counts = counts[first - 1 : last] if first > 0 else np.append([0], counts[:last])
    return HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=values.dot(values), bucket_limit=limits[first : last + 1].tolist(),
        bucket=counts.tolist(),
    )  # fmt: skip


def in_hwc(array: Any, dataformats: str) -> Any:
    """An image, or images side by side, as height, width, three channels."""
    if len(set(dataformats)) != len(dataformats):
        raise AssertionError(
            "You can not use the same dimension shorthand twice.             "
            f"input_format: {dataformats}"
        )
    if array.ndim != len(dataformats):
        raise AssertionError(
            "size of input tensor and input format are different.         "
            f"tensor shape: {array.shape}, input_format: {dataformats}"
        )
    order = dataformats.upper()
    if len(order) == 4:
        return side_by_side(array.transpose([order.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(order) == 2:
        array = array.transpose([order.find(c) for c in "HW"])[:, :, None]
    else:
        array = array.transpose([order.find(c) for c in "HWC"])
    return np.concatenate([array] * 3, 2) if array.shape[2] == 1 else array


def side_by_side(images: Any, columns: int = 8) -> Any:
    """(N, C, H, W) as one image of rows of eight."""
    images = np.concatenate([images] * 3, 1) if images.shape[1] == 1 else images
    n, channels, height, width = images.shape
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    canvas = np.zeros((channels, rows * height, columns * width), dtype=images.dtype)
    for i, picture in enumerate(images):
        y, x = i // columns * height, i % columns * width
        canvas[:, y : y + height, x : x + width] = picture
    return canvas


def in_bytes(array: Any) -> Any:
    """Pixels from 0 to 255; floats are from 0 to 1."""
    factor = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, as PNG."""
    pixels = in_bytes(in_hwc(make_np(tensor), dataformats))
    return one(tag=tag, image=make_image(pixels, rescale))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Any = None,
) -> Any:
    """A picture with rectangles (xmin, ymin, xmax, ymax) drawn into it."""
    pixels = in_bytes(in_hwc(make_np(tensor_image), dataformats))
    boxes = make_np(tensor_boxes)
    return one(tag=tag, image=make_image(pixels, rescale, rois=boxes, labels=labels))


def make_image(tensor: Any, rescale: float = 1, rois: Any = None, labels: Any = None) -> Any:
    from PIL import Image, ImageDraw

    height, width, channels = tensor.shape
    drawn = Image.fromarray(tensor)
    if rois is not None:
        pen = ImageDraw.Draw(drawn)
        for i, (left, top, right, bottom) in enumerate(rois):
            corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
            pen.line(corners, width=2, fill="Red")
            if labels:
                _, _, wide, high = pen.textbbox((0, 0), labels[i])
                pen.rectangle([left, bottom - high - 2, left + wide, bottom], fill="Red")
                pen.text((left + 1, bottom - high - 1), labels[i], fill="black")
    drawn = drawn.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    drawn.save(out, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=out.getvalue()
    )


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """(N, T, C, H, W) as an animated GIF, the N films side by side."""
    from PIL import Image

    films = make_np(tensor)
    frames = [in_bytes(side_by_side(films[:, t]).transpose(1, 2, 0)) for t in range(films.shape[1])]
    pictures = [Image.fromarray(frame) for frame in frames]
    out = io.BytesIO()
    pictures[0].save(
        out, "GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0
    )
    height, width, channels = frames[0].shape
    return one(tag=tag, image=Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=out.getvalue()
    ))  # fmt: skip


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Sound of one channel, between -1 and 1."""
    array = make_np(tensor).squeeze()
    if np.abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((array * np.iinfo(np.int16).max).astype("<i2").tobytes())
    return one(tag=tag, audio=Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(array),
        encoded_audio_string=out.getvalue(), content_type="audio/wav",
    ))  # fmt: skip


def text(tag: str, text: str) -> Any:
    """Text in Markdown."""
    proto = TensorProto(
        dtype="DT_STRING", string_val=[text.encode("utf_8")], tensor_shape=shape_of([1])
    )
    return one(tag=tag + "/text_summary", tensor=proto, metadata=plugin("text"))


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Which scalars are drawn together."""
    from tensorboard.plugins.custom_scalar import layout_pb2 as made

    categories = []
    for category, charts in layout.items():
        drawn = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"Expected 3 tags, but got {len(tags)}.")
                value, lower, upper = tags
                series = made.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                chart = {"margin": made.MarginChartContent(series=[series])}
            else:
                chart = {"multiline": made.MultilineChartContent(tag=list(tags))}
            drawn.append(made.Chart(title=title, **chart))
        categories.append(made.Category(title=category, chart=drawn))
    proto = TensorProto(
        dtype="DT_STRING", tensor_shape=TensorShapeProto(),
        string_val=[made.Layout(category=categories).SerializeToString()],
    )  # fmt: skip
    return one(tag="custom_scalars__config__", tensor=proto, metadata=plugin("custom_scalars"))


def curve(tag: str, rows: Any, num_thresholds: int) -> Any:
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    num_thresholds = min(num_thresholds, 127)
    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    proto = TensorProto(
        dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=shape_of(rows.shape)
    )
    return one(tag=tag, tensor=proto, metadata=plugin("pr_curves", content))


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any,
    num_thresholds: int = 127, weights: Any = None,
) -> Any:  # fmt: skip
    """A curve of precision and recall that was counted elsewhere."""
    return curve(tag, np.stack((tp, fp, tn, fn, precision, recall)), num_thresholds)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision and recall for thresholds from 0 to 1."""
    n = min(num_thresholds, 127)
    return curve(tag, compute_curve(labels, predictions, n, weights), n)


def compute_curve(labels: Any, predictions: Any, num_thresholds: int, weights: Any = None) -> Any:
    weights = 1.0 if weights is None else weights
    places = np.int32(np.floor(predictions * (num_thresholds - 1)))

    def at_least(weight: Any) -> Any:
        """The weight of the predictions that are not below each threshold."""
        counts, _ = np.histogram(
            places, bins=num_thresholds, range=(0, num_thresholds - 1), weights=weight
        )
        return np.cumsum(counts[::-1])[::-1]

    tp = at_least(labels.astype(float) * weights)
    fp = at_least((1.0 - labels.astype(float)) * weights)
    fn = tp[0] - tp
    tn = fp[0] - fp
    tiny = 1e-7  # in the place of no prediction at all
    return np.stack((
        tp, fp, tn, fn, tp / np.maximum(tiny, tp + fp), tp / np.maximum(tiny, tp + fn)
    ))  # fmt: skip


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Any,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """Points in space, with colours and triangles."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData as Kinds

    config = json.dumps(config_dict or {}, sort_keys=True)
    given = [(vertices, Kinds.VERTEX), (faces, Kinds.FACE), (colors, Kinds.COLOR)]
    parts = [(tensor, kind) for tensor, kind in given if tensor is not None]
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    values = []
    for tensor, kind in parts:
        told = metadata.create_summary_metadata(
            tag, display_name, kind, components, tuple(tensor.shape), description,
            json_config=config,
        )  # fmt: skip
        proto = TensorProto(
            dtype="DT_FLOAT", float_val=tensor.detach().cpu().reshape(-1).tolist(),
            tensor_shape=shape_of(tensor.shape),
        )  # fmt: skip
        name = metadata.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=proto, metadata=told))
    return Summary(value=values)


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None
) -> tuple[Any, Any, Any]:
    """Entries for the hyperparameters of a run: the experiment, the beginning of the session, its
    end.
    """
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams import (
        api_pb2 as api,
    )
    from tensorboard.plugins.hparams import (
        metadata,
    )
    from tensorboard.plugins.hparams import (
        plugin_data_pb2 as data,
    )

    if not isinstance(hparam_dict, dict):
        raise TypeError("parameter: hparam_dict should be a dictionary, nothing logged.")
    if not isinstance(metric_dict, dict):
        raise TypeError("parameter: metric_dict should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domains.items():
        kind = type(hparam_dict.get(name))
        if (
            name not in hparam_dict
            or not isinstance(values, list)
            or not all(isinstance(value, kind) for value in values)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                f"hparam_dict[{name}]."
            )

    infos, session = [], data.SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, tg.Tensor):
            value = make_np(value)[0]
            field, kind = "number_value", api.DataType.DATA_TYPE_FLOAT64
        elif isinstance(value, str):
            field, kind = "string_value", api.DataType.DATA_TYPE_STRING
        elif isinstance(value, (int, float)):  # bools, too: PyTorch writes them as numbers
            field, kind = "number_value", api.DataType.DATA_TYPE_FLOAT64
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        session.hparams[name].CopyFrom(struct_pb2.Value(**{field: value}))
        domain = None
        if name in domains:
            domain = struct_pb2.ListValue(
                values=[struct_pb2.Value(**{field: each}) for each in domains[name]]
            )
        infos.append(api.HParamInfo(name=name, type=kind, domain_discrete=domain))
    metrics = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    experiment = api.Experiment(hparam_infos=infos, metric_infos=metrics)

    def record(tag: str, **content: Any) -> Any:
        made = data.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
        told = plugin(metadata.PLUGIN_NAME, made.SerializeToString())
        return one(tag=tag, metadata=told)

    ended = data.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
    return (
        record(metadata.EXPERIMENT_TAG, experiment=experiment),
        record(metadata.SESSION_START_INFO_TAG, session_start_info=session),
        record(metadata.SESSION_END_INFO_TAG, session_end_info=ended),
    )
