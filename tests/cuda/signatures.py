"""What CuPy 14 functions take: fewer options than NumPy's. Read off an installed one.

`name(a,b=,*,c=,**)`: `b` may be left out, what follows `*` or `/` goes by keyword only, `*` takes
any number of arguments, `**` any keyword.
"""

from __future__ import annotations

from typing import Any

FUNCTIONS = """
all(a,axis=,out=,keepdims=) allclose(a,b,rtol=,atol=,equal_nan=) amax(a,axis=,out=,keepdims=)
amin(a,axis=,out=,keepdims=) angle(z,deg=) any(a,axis=,out=,keepdims=) append(arr,values,axis=)
arange(start,stop=,step=,dtype=) argmax(a,axis=,dtype=,out=,keepdims=)
argmin(a,axis=,dtype=,out=,keepdims=) argpartition(a,kth,axis=) argsort(a,axis=,kind=) argwhere(a)
around(a,decimals=,out=) array(obj,dtype=,copy=,order=,subok=,ndmin=,/,blocking=)
array_equal(a1,a2,equal_nan=) array_split(ary,indices_or_sections,axis=)
asanyarray(a,dtype=,order=,/,copy=,blocking=) asarray(a,dtype=,order=,/,copy=,blocking=)
ascontiguousarray(a,dtype=) asfortranarray(a,dtype=) atleast_1d(*) atleast_2d(*) atleast_3d(*)
average(a,axis=,weights=,returned=,/,keepdims=) bincount(x,weights=,minlength=)
broadcast_arrays(*) broadcast_to(array,shape) choose(a,choices,out=,mode=)
clip(a,a_min,a_max,out=) column_stack(tup) compress(condition,a,axis=,out=)
concat(tup,axis=,out=,/,dtype=,casting=) concatenate(tup,axis=,out=,/,dtype=,casting=)
convolve(a,v,mode=) copy(a,order=) copyto(dst,src,casting=,where=)
corrcoef(a,y=,rowvar=,bias=,ddof=,/,dtype=) correlate(a,v,mode=) count_nonzero(a,axis=)
cov(a,y=,rowvar=,bias=,ddof=,fweights=,aweights=,/,dtype=) cross(a,b,axisa=,axisb=,axisc=,axis=)
cumprod(a,axis=,dtype=,out=) cumsum(a,axis=,dtype=,out=) delete(arr,indices,axis=) diag(v,k=)
diag_indices(n,ndim=) diagflat(v,k=) diagonal(a,offset=,axis1=,axis2=)
diff(a,n=,axis=,prepend=,append=) digitize(x,bins,right=) dot(a,b,out=)
dsplit(ary,indices_or_sections) dstack(tup) ediff1d(arr,to_end=,to_begin=) einsum(*,**)
empty(shape,dtype=,order=) empty_like(prototype,dtype=,order=,subok=,shape=) expand_dims(a,axis)
extract(condition,a) eye(N,M=,k=,dtype=,order=) fill_diagonal(a,val,wrap=) flatnonzero(a)
flip(a,axis=) fliplr(a) flipud(a) full(shape,fill_value,dtype=,order=)
full_like(a,fill_value,dtype=,order=,subok=,shape=) gradient(f,*,axis=,edge_order=)
histogram(x,bins=,range=,density=,weights=) hsplit(ary,indices_or_sections)
hstack(tup,/,dtype=,casting=) identity(n,dtype=) imag(val) indices(dimensions,dtype=) inner(a,b)
interp(x,xp,fp,left=,right=,period=) isclose(a,b,rtol=,atol=,equal_nan=) iscomplex(x)
isin(element,test_elements,assume_unique=,invert=) isneginf(x,out=) isposinf(x,out=) isreal(x)
kron(a,b) lexsort(keys) linspace(start,stop,num=,endpoint=,retstep=,dtype=,axis=)
logspace(start,stop,num=,endpoint=,base=,dtype=,axis=)
matmul(*,axes=,axis=,keepdims=,casting=,dtype=,signature=,order=,out=) max(a,axis=,out=,keepdims=)
may_share_memory(a,b,max_work=) mean(a,axis=,dtype=,out=,keepdims=)
median(a,axis=,out=,overwrite_input=,keepdims=) meshgrid(*,**) min(a,axis=,out=,keepdims=)
moveaxis(a,source,destination) nan_to_num(x,copy=,nan=,posinf=,neginf=)
nanargmax(a,axis=,dtype=,out=,keepdims=) nanargmin(a,axis=,dtype=,out=,keepdims=)
nancumprod(a,axis=,dtype=,out=) nancumsum(a,axis=,dtype=,out=) nanmax(a,axis=,out=,keepdims=)
nanmean(a,axis=,dtype=,out=,keepdims=) nanmedian(a,axis=,out=,overwrite_input=,keepdims=)
nanmin(a,axis=,out=,keepdims=) nanprod(a,axis=,dtype=,out=,keepdims=)
nanstd(a,axis=,dtype=,out=,ddof=,keepdims=) nansum(a,axis=,dtype=,out=,keepdims=)
nanvar(a,axis=,dtype=,out=,ddof=,keepdims=) nonzero(a) ones(shape,dtype=,order=)
ones_like(a,dtype=,order=,subok=,shape=) outer(a,b,out=) pad(array,pad_width,mode=,**)
partition(a,kth,axis=)
percentile(a,q,axis=,out=,overwrite_input=,method=,keepdims=,/,interpolation=)
permute_dims(a,axes=) place(arr,mask,vals) prod(a,axis=,dtype=,out=,keepdims=)
ptp(a,axis=,out=,keepdims=) put(a,ind,v,mode=) put_along_axis(arr,indices,values,axis)
putmask(a,mask,values)
quantile(a,q,axis=,out=,overwrite_input=,method=,keepdims=,/,interpolation=) ravel(a,order=)
real(val) repeat(a,repeats,axis=) reshape(a,newshape,order=,/,copy=) resize(a,new_shape)
roll(a,shift,axis=) rollaxis(a,axis,start=) roots(p) rot90(a,k=,axes=) round(a,decimals=,out=)
searchsorted(a,v,side=,sorter=) select(condlist,choicelist,default=) shares_memory(a,b,max_work=)
sort(a,axis=,kind=) split(ary,indices_or_sections,axis=) squeeze(a,axis=)
stack(tup,axis=,out=,/,dtype=,casting=) std(a,axis=,dtype=,out=,ddof=,keepdims=)
sum(a,axis=,dtype=,out=,keepdims=) swapaxes(a,axis1,axis2) take(a,indices,axis=,out=)
take_along_axis(a,indices,axis) tensordot(a,b,axes=) tile(A,reps)
trace(a,offset=,axis1=,axis2=,dtype=,out=) transpose(a,axes=) trapezoid(y,x=,dx=,axis=)
tri(N,M=,k=,dtype=) tril(m,k=) tril_indices(n,k=,m=) triu(m,k=) triu_indices(n,k=,m=)
union1d(arr1,arr2) unique(ar,return_index=,return_inverse=,return_counts=,axis=,/,equal_nan=)
unravel_index(indices,dims,order=) unwrap(p,discont=,axis=,/,period=) vander(x,N=,increasing=)
var(a,axis=,dtype=,out=,ddof=,keepdims=) vdot(a,b) vsplit(ary,indices_or_sections)
vstack(tup,/,dtype=,casting=) where(condition,x=,y=) zeros(shape,dtype=,order=)
zeros_like(a,dtype=,order=,subok=,shape=)
"""
LINALG = """
cholesky(a) det(a) eig(a) eigh(a,UPLO=) eigvals(a) eigvalsh(a,UPLO=) inv(a) lstsq(a,b,rcond=)
matmul(*,axes=,axis=,keepdims=,casting=,dtype=,signature=,order=,out=) matrix_power(M,n)
matrix_rank(M,tol=) norm(x,ord=,axis=,keepdims=) pinv(a,rcond=) qr(a,mode=) slogdet(a) solve(a,b)
svd(a,full_matrices=,compute_uv=) tensorinv(a,ind=) tensorsolve(a,b,axes=)
"""
FFT = """
fft(a,n=,axis=,norm=) fft2(a,s=,axes=,norm=) fftfreq(n,d=) fftn(a,s=,axes=,norm=)
fftshift(x,axes=) hfft(a,n=,axis=,norm=) ifft(a,n=,axis=,norm=) ifft2(a,s=,axes=,norm=)
ifftn(a,s=,axes=,norm=) ifftshift(x,axes=) ihfft(a,n=,axis=,norm=) irfft(a,n=,axis=,norm=)
irfft2(a,s=,axes=,norm=) irfftn(a,s=,axes=,norm=) rfft(a,n=,axis=,norm=) rfft2(a,s=,axes=,norm=)
rfftfreq(n,d=) rfftn(a,s=,axes=,norm=)
"""
METHODS = """
max(axis=,out=,keepdims=) min(axis=,out=,keepdims=) sum(axis=,dtype=,out=,keepdims=)
prod(axis=,dtype=,out=,keepdims=) all(axis=,out=,keepdims=) any(axis=,out=,keepdims=)
argmax(axis=,out=,dtype=,keepdims=) argmin(axis=,out=,dtype=,keepdims=) cumsum(axis=,dtype=,out=)
cumprod(axis=,dtype=,out=) astype(dtype,order=,casting=,subok=,copy=) copy(order=) sort(axis=,kind=)
argsort(axis=,kind=) take(indices,axis=,out=) reshape(*,order=,copy=) view(dtype=,type=)
transpose(*) ravel(order=) flatten(order=) repeat(repeats,axis=) squeeze(axis=)
swapaxes(axis1,axis2) diagonal(offset=,axis1=,axis2=) trace(offset=,axis1=,axis2=,dtype=,out=)
clip(min=,max=,out=) round(decimals=,out=) mean(axis=,dtype=,out=,keepdims=)
std(axis=,dtype=,out=,ddof=,keepdims=) var(axis=,dtype=,out=,ddof=,keepdims=)
searchsorted(v,side=,sorter=) partition(kth,axis=) argpartition(kth,axis=) nonzero() dot(b,out=)
choose(choices,out=,mode=) compress(condition,axis=,out=) conj() conjugate()
"""
# Which methods of which ufuncs are there at all.
REDUCE = ("add", "multiply")
ACCUMULATE = ("add", "multiply")
REDUCEAT = ("add",)
AT = ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
UFUNC_OPTIONS = frozenset(["out", "dtype", "casting"])
FLAGS = ("c_contiguous", "f_contiguous", "owndata", "fnc", "forc")


class Signature:
    """How many positional arguments, and which keywords."""

    def __init__(self, text: str) -> None:
        self.most = 0
        self.keywords: set[str] = set()
        self.open = False
        only_keywords = False
        for part in text.split(","):
            name = part.rstrip("=")
            if name == "**":
                self.open = True
            elif name in ("*", "/"):
                only_keywords = True
                self.most = 1 << 30 if name == "*" else self.most
            elif name:
                self.keywords.add(name)
                self.most += not only_keywords

    def check(self, name: str, args: Any, kwargs: Any) -> None:
        unknown = [k for k in kwargs if k not in self.keywords]
        if len(args) > self.most or (unknown and not self.open):
            raise TypeError(f"CuPy's {name} takes no {unknown or f'{len(args)} arguments'}")


def read(text: str) -> dict[str, Signature]:
    parts = [item.rstrip(")").split("(") for item in text.split()]
    return {name: Signature(rest) for name, rest in parts}


SIGNATURES = {
    "": read(FUNCTIONS),
    "linalg": read(LINALG),
    "fft": read(FFT),
    "ndarray": read(METHODS),
}
